{
  trials: [
    { name: 'a', gpus: 1 },
    {
      assert self.gpus < 3 : 'there are ' + 2 + ' GPUs',
      name: 'b',
      gpus: 4,
    },
  ],
}

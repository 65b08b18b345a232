local seeds = [1, 2];
[{ name: 'a', seed: seeds - 1 }]

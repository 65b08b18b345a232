// For imported.jsonnet.
{
  trial(name, slots):: {
    name: name,
    gpus: slots.gpus,
  },
}

// The functions of combu.libsonnet return the same values with every evaluator.
local combu = import 'combu.libsonnet';
local uuid = 'UUID';
{
  grid: combu.grid({ lr: [0.1, 0.01], fold: [0, 1, 2], mode: ['a', null] }),
  sample: combu.sample(50, { lr: { min: 1e-5, max: 0.1, log: true }, dropout: { min: 0, max: 0.5 }, layers: { min: 1, max: 8, int: true }, n: { min: 1, max: 1000, log: true, int: true }, optimizer: ['sgd', 'adam'] }, 'seed'),
  names: ['lr' + point.lr for point in combu.sample(50, { lr: { min: 1e-9, max: 1e9, log: true } }, 3)],
  shuffled: combu.shuffle(std.range(1, 50), 1),
  chunks: combu.chunk(std.range(1, 10), 3),
  folds: combu.folds(4),
  run: [uuid, std.extVar('combu.run')],
}

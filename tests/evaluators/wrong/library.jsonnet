local combu = import 'combu.libsonnet';
local points = combu.sample(3, { lr: { min: 1, max: 0 } }, 1);
[{ name: 'a-' + i, params: points[i] } for i in [0, 1, 2]]

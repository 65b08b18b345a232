local lab = import 'lab.libsonnet';
[lab.trial('a', { gpus: 1 }), lab.trial('b', {})]

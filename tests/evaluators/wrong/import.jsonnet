{ trials: import 'nowhere.libsonnet' }

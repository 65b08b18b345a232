[{ name: 'solver-' + mode } for id in [1]]

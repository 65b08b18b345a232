[
  { name: 'a' image: 'debian' },
]

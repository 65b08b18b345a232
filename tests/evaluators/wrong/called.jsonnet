// An error in a function that a field of a trial calls.
local lr(i) =
  if i > 2 then error 'no more' else i;
local trial(i) = {
  name: 'a-' + i,
  command: ['train', '--lr=' + lr(i)],
};
{
  trials: [trial(i) for i in std.range(0, 5)],
}

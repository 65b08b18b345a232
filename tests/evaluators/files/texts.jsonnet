// Characters, escapes, text blocks and string functions.
local name = 'solver';
{
  escapes: "\u0001\b\f\n\r\t\"\\\/ \u00e9 \ud83d\ude00",
  raw: '\u2028 \u2029 é 😀 </script> ',
  verbatim: [@'a\b''c', @"d\e""f"],
  block: |||
    %(name)s runs
      with "quotes" and \ and	a tab

    to the end
  ||| % { name: name },
  pieces: [name[0], name[1:3], name[::2], std.length('é😀'), std.codepoint('😀'), std.char(128512)],
  joined: std.join('-', ['a', 'b', 'c']) + '/' + std.join(', ', [std.toString(x) for x in [1, null, true, [1, 'a'], { b: 2, a: 1 }]]),
  split: std.split('a,b,,c', ',') + std.splitLimit('a=b=c', '=', 1),
  cases: [std.asciiUpper('abc é'), std.asciiLower('ABC É'), std.stripChars(' ab ', ' '), std.strReplace('a-b-c', '-', '+')],
  order: std.sort(['b', 'B', 'a', 'é', '😀', '', 'aa']),
  less: ['a' < 'b', 'Z' < 'a', '😀' > '｡', '' < 'a'],
  escaped: [std.escapeStringBash("it's"), std.escapeStringJson('a"b'), std.escapeStringPython('a"b'), std.escapeStringDollars('$a')],
  formats: ['%d' % 7, '%5d|%-5d|%05d' % [7, 7, 7], '%s' % 'a', '%5s|%-5s' % ['a', 'b'], '%x %o' % [255, 8], '%%', '%c' % 'a', '%.3f' % 2, '%s' % [[1, 'a']]],
  lines: std.lines(['a', 'b']),
  characters: std.stringChars('aé😀'),
}

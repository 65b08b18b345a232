// Objects, arrays, and functions of the standard library.
local base = { name: error 'given by those who extend it', env: { A: 'a' }, hidden:: 3, shown: self.hidden, super_name: 'x' };
local child = base { name: 'child', env+: { B: 'b' }, hidden+: 1, super_name+: 'y', [if true then 'made']: 1, [null]: 2 };
local sum(list) = std.foldl(function(a, b) a + b, list, 0);
{
  child: child,
  empty: [[], {}, [[]], [{}], { a: {}, b: [] }],
  order: { z: 1, a: 2, Z: 3, 'ä': 4, '': 5, '10': 6, '9': 7 },
  forced: { a:: 1, b::: 2, c: 3 } { a::: 4, b: 5 },
  fields: [std.objectFields(child), std.objectFieldsAll(child), std.objectHas(child, 'hidden'), std.objectHasAll(child, 'hidden')],
  product: [{ a: a, b: b } for a in [1, 2] for b in ['x', 'y'] if a == 1 || b == 'x'],
  comprehended: { ['k' + i]: i for i in std.range(1, 3) },
  slices: [std.range(0, 9)[2:8:3], 'abcdef'[:3]],
  sets: [std.set([3, 1, 3, 2]), std.setUnion([1, 2], [2, 3]), std.setDiff([1, 2], [2]), std.setInter([1, 2], [2]), std.setMember(2, [1, 2]), std.uniq([1, 1, 2])],
  sorted: [std.sort([3, 1, 2]), std.sort([{ k: 2 }, { k: 1 }], function(x) x.k), std.sort([[2], [1, 3], [1]])],
  folded: [sum([1, 2, 3]), std.foldr(function(a, b) a + b, ['a', 'b'], ''), std.flatMap(function(x) [x, x], [1, 2]), std.flattenArrays([[1], [2, 3]])],
  mapped: [std.map(function(x) x * 2, [1, 2]), std.mapWithIndex(function(i, x) [i, x], ['a']), std.mapWithKey(function(k, v) k + v, { a: 1 }), std.filter(function(x) x > 1, [1, 2]), std.filterMap(function(x) x > 1, function(x) x * x, [1, 2, 3])],
  same: [[1, { a: 2 }] == [1, { a: 2 }], { a: 1 } == { a: 1, b:: 2 }, null == null, 'a' == 1, std.type(null), std.type(1), std.type([])],
  merged: [std.mergePatch({ a: 1, b: { c: 2 } }, { b: { c: null, d: 3 } }), std.prune({ a: null, b: [], c: { d: {} }, e: 1 })],
  written: [std.manifestJsonEx({ a: [1, {}], b: 'x' }, '  '), std.manifestIni({ main: { a: '1' }, sections: { s: { b: ['x', 'y'] } } }), std.manifestPython({ a: [true, null] }), std.manifestYamlDoc({ a: [1, { b: 'x' }] })],
  counted: [std.count([1, 2, 1], 1), std.find(1, [1, 2, 1]), std.member('abc', 'b'), std.length({ a: 1, b:: 2 }), std.reverse([1, 2]), std.repeat('ab', 2), std.repeat([1], 2)],
  texts: [std.md5('a'), std.base64('abc'), std.base64Decode('YWJj'), std.encodeUTF8('é'), std.decodeUTF8([195, 169]), std.startsWith('abc', 'a'), std.endsWith('abc', 'c'), std.substr('abcdef', 2, 3)],
  lazy: local endless = { next: self, at: 1 }; endless.next.next.at,
  asserted: { assert self.a > 0 : 'above', a: 1 },
  dollar: { a: { b: $.product[0].a } },
  file: std.thisFile,
  called: (function(a, b=a + 1) [a, b])(b=3, a=1),
  clamped: [std.clamp(5, 1, 3), std.max(1, 2), std.min(1, 2)],
}

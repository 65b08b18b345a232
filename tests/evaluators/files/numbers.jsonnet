// JSON and strings show a number in the same form: the shortest text that is parsed as the same number.
local numbers = [
  0, -0, 1, -1, 0.1, 0.2 + 0.1, 1 / 3, 1e-5, 1e-7, 123456789012345680000, 1e21, 1e22, 1e100, 1.7976931348623157e308, 5e-324,
  9007199254740991, 9007199254740992, -123.456, 0.30000000000000004, 2.5e-8, 100, 1e2, 0.5, 1 << 40, ~5, 7 ^ 2, 12 & 10, 12 | 3,
];
{
  json: numbers,
  texts: [std.toString(number) for number in numbers],
  appended: ['lr' + number for number in numbers],
  nested: '' + { lr: 0.1, list: [1e-7, 3] },
  made: [std.floor(-1.5), std.ceil(1.2), std.pow(2, 0.5), std.exponent(8), std.mantissa(8), std.sqrt(2), std.abs(-3), std.sign(-2), 7 % 3, -7 % 3, std.mod(7.5, 2)],
  read: [std.parseInt('-12'), std.parseHex('ff'), std.parseOctal('17'), std.parseJson('1e-7'), std.parseJson('[1.50, {"a": 1E2}]')],
}

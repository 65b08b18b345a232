// combu.libsonnet: functions for experiments that explore parameters. Import: `local combu = import "combu.libsonnet";`
//
//   grid({lr: [0.1, 0.01], fold: [0, 1, 2]})
//       Returns every combination of the values, as an array of objects. Jsonnet sorts fields by name, and the last
//       field varies fastest: here fold 0 and lr 0.1, fold 0 and lr 0.01, fold 1 and lr 0.1, ...
//   sample(n, {optimizer: ["sgd", "adam"], dropout: {min: 0, max: 0.5}, lr: {min: 1e-5, max: 0.1, log: true},
//              layers: {min: 1, max: 8, int: true}}, seed)
//       Returns n random points. For a field with an array, the value is an element of the array. With {min, max}, the
//       value is uniform, from min to below max. With log, the logarithm is uniform, and the value has six digits.
//       With int, the value is a whole number from min to max, max included. The value of a field depends only on the
//       field's name, the seed and the index of the point. If a field is added or n grows, other values do not change.
//   shuffle(list, seed)
//       Returns the elements of the array in random order.
//   chunk(list, k)
//       Splits the array into k consecutive arrays. The lengths differ by at most one, and longer arrays come first.
//   folds(k)
//       Returns the k folds of a cross-validation: [{fold: 0, test: 0, train: [1, 2, ..., k-1]}, ...]. The numbers are
//       indices of the arrays that chunk(data, k) returns: `test` is for the test, the arrays in `train` for training.
//
// A seed is a whole number or a string; "1" and 1 are equal seeds. With the same arguments, every implementation of
// Jsonnet returns the same result, because whole numbers stay below 2^53 and bit operations use at most 48 bits.
// Arrays that may be long are not built by array comprehensions. The memory that libjsonnet needs for a comprehension
// grows with the square of the array's length (0.8 GB for 20,000 elements).

local mask32 = 4294967295;

// Returns a hash of the number h, computed by the finalizer of MurmurHash3: if one bit of h changes, about half of the
// bits of the result change. b and d are the low 32 bits of a product of two 32-bit numbers. The product is computed in
// two halves, because a double holds only 53 bits. Both products are written out, because a call of a function costs
// more than the arithmetic.
local mix(h) =
  local a = h ^ (h >> 16);
  local b = (((((a >> 16) * 2246822507) & 65535) << 16) + (a & 65535) * 2246822507) & mask32;
  local c = b ^ (b >> 13);
  local d = (((((c >> 16) * 3266489909) & 65535) << 16) + (c & 65535) * 3266489909) & mask32;
  d ^ (d >> 16);

local hash_text(start, text) =
  std.foldl(function(h, place) mix(h ^ std.codepoint(text[place])) + 1 & mask32, std.range(0, std.length(text) - 1), start);

local kind(value) = std.type(value);
local floor = std.floor;

local is_whole(value) = kind(value) == 'number' && floor(value) == value;

local shown(value) =
  if kind(value) == 'number' then std.toString(value)
  else if kind(value) == 'array' || kind(value) == 'object' then 'an ' + kind(value)
  else if kind(value) == 'null' then 'null'
  else 'a ' + kind(value);

local refuse(call, what) = error 'combu.' + call + ': ' + what;

// Evaluates each of `values`, and returns `result`. Jsonnet is lazy and would otherwise evaluate `values` later, when
// an error could no longer show the place of the caller.
local after(values, result) = if std.foldl(function(_, value) kind(value) != '', values, true) then result;

// Returns the key of a stream of random numbers. Each pair of a seed and a purpose has its own stream.
local stream(call, seed, purpose) =
  if kind(seed) == 'string' || is_whole(seed)
  then hash_text(hash_text(mix(std.length(purpose) + 1), purpose), std.toString(seed))
  else refuse(call, 'seed must be a whole number or a string, not ' + shown(seed));

// Returns the number at index `place` of the stream `key`, from 0 to 2^32 - 1. As in SplitMix, the number is the hash
// of an element of a Weyl sequence (32 bits of the golden ratio). The number does not depend on the previous number, so
// the function need not recurse.
local random(key, place) = mix((key + place * 2654435769) & mask32);

local two_to_32 = 4294967296;
local place_max = 1000000;  // place * 2654435769 stays below 2^53

// Returns `value` if it is a whole number from `min` to place_max, else reports an error.
local whole_number(call, name, value, min) =
  if is_whole(value) && value >= min && value <= place_max then value
  else refuse(call, name + ' must be a whole number from ' + min + ' to ' + place_max + ', not ' + shown(value));

local list_of(call, name, value) =
  if kind(value) != 'array' then refuse(call, name + ' must be an array, not ' + shown(value))
  else if std.length(value) > place_max then refuse(call, name + ' has more than ' + place_max + ' values')
  else value;

// The powers are an array, because Jsonnet evaluates each element of an array only once. A function or a field of an
// object would be evaluated again.
local powers_of_10 = [std.parseJson('1e' + exponent) for exponent in std.range(0, 308)];
local digits_per_e = 1 / std.log(10);

// Rounds to six digits, because the last bit of a logarithm may differ between machines.
local rounded(value) =
  local exponent = 5 - floor(std.log(value) * digits_per_e);
  local scale = powers_of_10[if exponent < 0 then -exponent else exponent];
  if exponent > 308 then value
  else if exponent >= 0 then floor(value * scale + 0.5) / scale else floor(value / scale + 0.5) * scale;

local clamped(value, min, max) = if value < min then min else if value > max then max else value;

local flag(call, name, range, field) =
  local value = if std.objectHas(range, field) then range[field] else false;
  if kind(value) == 'boolean' then value
  else refuse(call, name + '.' + field + ' must be true or false, not ' + shown(value));

local bound(call, name, range, field) =
  if !std.objectHas(range, field) then refuse(call, name + ' must be an array of values or have min and max')
  else if kind(range[field]) == 'number' then range[field]
  else refuse(call, name + '.' + field + ' must be a number, not ' + shown(range[field]));

local checked_range(call, name, range) =
  local unknown = [field for field in std.objectFields(range) if std.count(['min', 'max', 'log', 'int'], field) == 0];
  local result = {
    min: bound(call, name, range, 'min'),
    max: bound(call, name, range, 'max'),
    log: flag(call, name, range, 'log'),
    int: flag(call, name, range, 'int'),
  };
  if std.length(unknown) > 0
  then refuse(call, name + ' has the unknown field ' + unknown[0] + '; min, max, log and int are known')
  else if result.min > result.max then refuse(call, name + '.min is larger than its max')
  else if result.log && result.min <= 0 then refuse(call, name + '.min must be above 0 for log')
  else if result.int && !(is_whole(result.min) && is_whole(result.max))
  then refuse(call, name + '.min and max must be whole numbers for int')
  else if result.int && result.max - result.min >= two_to_32
  then refuse(call, name + ' holds more than 2^32 whole numbers')
  else result;

// Returns a function that maps a fraction u, 0 <= u < 1, to a value of the range.
local draw_from_range(range) =
  local min = range.min;
  local max = range.max;
  local top = if range.int then max + 1 else max;
  local low = if range.log then std.log(min) else min;
  local width = (if range.log then std.log(top) else top) - low;
  if range.log && range.int then function(u) clamped(floor(std.exp(low + u * width)), min, max)
  else if range.log then function(u) clamped(rounded(std.exp(low + u * width)), min, max)
  else if range.int then function(u) clamped(floor(low + u * width), min, max)
  else function(u) clamped(low + u * width, min, max);

local draw_from_list(call, name, values) =
  local count = std.length(list_of(call, name, values));
  if count == 0 then refuse(call, name + ' has no values to choose from')
  else function(u) values[floor(u * count)];

local draw(call, name, space) =
  if kind(space) == 'array' then draw_from_list(call, name, space)
  else if kind(space) == 'object' then draw_from_range(checked_range(call, name, space))
  else refuse(call, name + ' must be an array of values or an object with min and max, not ' + shown(space));

{
  grid(axes)::
    local call = 'grid';
    local names =
      if kind(axes) == 'object' then std.objectFields(axes)
      else refuse(call, 'needs an object of arrays, not ' + shown(axes));
    local sizes = [std.length(list_of(call, name, axes[name])) for name in names];
    // The i-th field changes every strides[i + 1] points.
    local strides = std.foldr(function(size, after) [size * after[0]] + after, sizes, [1]);
    local count = strides[0];
    local values = [axes[name] for name in names];
    local pick(i, index) =
      local turn = floor(index / strides[i + 1]);
      values[i][turn - sizes[i] * floor(turn / sizes[i])];
    local fields = std.range(0, std.length(names) - 1);
    if count > place_max then refuse(call, 'has ' + count + ' points, but must have at most ' + place_max)
    else std.makeArray(count, function(index) { [names[i]]: pick(i, index) for i in fields }),

  sample(n, space, seed)::
    local call = 'sample';
    local count = whole_number(call, 'n', n, 0);
    local names =
      if kind(space) == 'object' then std.objectFields(space)
      else refuse(call, 'space must be an object, not ' + shown(space));
    local draws = [draw(call, name, space[name]) for name in names];
    local keys = [stream(call, seed, 'sample ' + name) for name in names];
    local fields = std.range(0, std.length(names) - 1);
    after(draws + keys, std.makeArray(count, function(place) {
      [names[i]]: draws[i](random(keys[i], place) / two_to_32)
      for i in fields
    })),

  shuffle(list, seed)::
    local call = 'shuffle';
    local values = list_of(call, 'list', list);
    local key = stream(call, seed, call);
    // The evaluator itself sorts the fields of an object, but not the array of std.sort. Code points from 65536 on are
    // not surrogates, and have the same order as code points, in UTF-8 and in UTF-16. `place` makes each name unique.
    local char = std.char;
    local name_of(number, place) =
      char(65536 + (number >> 12)) + char(65536 + (number & 4095)) + char(65536 + place);
    local order = {
      [name_of(random(key, place), place)]: place
      for place in std.range(0, std.length(values) - 1)
    };
    local names = std.objectFields(order);
    std.makeArray(std.length(names), function(i) values[order[names[i]]]),

  chunk(list, k)::
    local call = 'chunk';
    local values = list_of(call, 'list', list);
    local parts = whole_number(call, 'k', k, 1);
    local size = floor(std.length(values) / parts);
    local longer = std.length(values) - size * parts;
    local begin(part) = part * size + std.min(part, longer);
    after([values], std.makeArray(parts, function(part)
      local first = begin(part);
      std.makeArray(begin(part + 1) - first, function(i) values[first + i]))),

  folds(k)::
    local parts = whole_number('folds', 'k', k, 2);
    std.makeArray(parts, function(fold) {
      fold: fold,
      test: fold,
      train: std.makeArray(parts - 1, function(i) if i < fold then i else i + 1),
    }),
}

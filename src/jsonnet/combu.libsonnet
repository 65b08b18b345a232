// combu.libsonnet: what an exploration of parameters needs. `local combu = import "combu.libsonnet";`
//
//   grid({lr: [0.1, 0.01], fold: [0, 1, 2]})
//       Every combination, as an array of objects. Fields are taken in the order of their names, which is Jsonnet's own,
//       and the last one varies fastest: here fold 0 and lr 0.1, fold 0 and lr 0.01, fold 1 and lr 0.1, ...
//   sample(n, {optimizer: ["sgd", "adam"], dropout: {min: 0, max: 0.5}, lr: {min: 1e-5, max: 0.1, log: true},
//              layers: {min: 1, max: 8, int: true}}, seed)
//       n points chosen at random. A list: one of its values. {min, max}: uniform, min included; with log the logarithm is
//       uniform, and the value has six digits; with int whole numbers, max included. What one field gets depends on
//       its name, the seed and the point's place only, so that another field or a larger n does not change it.
//   shuffle(list, seed)
//       The same values in random order.
//   chunk(list, k)
//       k arrays of neighbours that together are the list; their lengths differ by one at most, the longer ones first.
//   folds(k)
//       A cross-validation's k folds: [{fold: 0, test: 0, train: [1, 2, ..., k-1]}, ...]. The numbers name parts of the
//       data, as chunk(data, k) would make them: test on that one, train on the others.
//
// A seed is a whole number or a text ("1" and 1 are the same). The same arguments give the same result on every
// implementation of Jsonnet: whole numbers stay below 2^53 and bit operations get 48 bits at most.
// No array comprehension is used where the array may be long: libjsonnet takes memory for one that grows with the square of its
// length (20,000: 0.8 GB).

local mask32 = 4294967295;

// The low 32 bits of a product of two 32-bit numbers, in two halves since a double holds 53 bits.
// Written out twice here, since a call costs more than its arithmetic.
//
// The finalizer of MurmurHash3: each bit of h turns about half of the bits of the result.
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

// `result`, once each of `values` has been worked out: left to Jsonnet's laziness, an error in one would come up when the
// caller's place is no longer known.
local after(values, result) = if std.foldl(function(_, value) kind(value) != '', values, true) then result;

// One stream of random numbers for each pair of a seed and a purpose.
local stream(call, seed, purpose) =
  if kind(seed) == 'string' || is_whole(seed)
  then hash_text(hash_text(mix(std.length(purpose) + 1), purpose), std.toString(seed))
  else refuse(call, 'seed must be a whole number or a string, not ' + shown(seed));

// The place-th number of a stream, 0 to 2^32 - 1. Computed from its place and not from the number before it, so that nothing
// recurses: a Weyl sequence (the golden ratio's 32 bits) put through mix, as in SplitMix.
local random(key, place) = mix((key + place * 2654435769) & mask32);

local two_to_32 = 4294967296;
local place_max = 1000000;  // place * 2654435769 stays below 2^53

// Checks, and gives the value.
local whole_number(call, name, value, min) =
  if is_whole(value) && value >= min && value <= place_max then value
  else refuse(call, name + ' must be a whole number from ' + min + ' to ' + place_max + ', not ' + shown(value));

local list_of(call, name, value) =
  if kind(value) != 'array' then refuse(call, name + ' must be an array, not ' + shown(value))
  else if std.length(value) > place_max then refuse(call, name + ' has more than ' + place_max + ' values')
  else value;

// An array keeps what it has worked out, a function and an object's field do not.
local powers_of_10 = [std.parseJson('1e' + exponent) for exponent in std.range(0, 308)];
local digits_per_e = 1 / std.log(10);

// Six digits, so that a last bit in which two machines' logarithms differ is not seen.
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

// A function from a fraction, 0 <= u < 1, to a value of the range.
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
    // strides[i] points pass before the i-th field changes.
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
    // An object's fields come sorted by the library itself, which std.sort is not. 65536 and above: no surrogates there, and
    // code points, UTF-8 and UTF-16 sort alike. The place makes each name one of its kind.
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

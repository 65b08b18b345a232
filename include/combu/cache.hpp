#pragma once
// The cache key of a trial: a JSON object and its hash. The object contains everything that is known before
// the trial starts and affects the trial's outputs. Trials with the same hash are equal.

#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

struct CacheKey {
  std::string hash;   // SHA-256, in hexadecimal digits
  std::string parts;  // a JSON object with sorted keys, such as "cmd", "env" and "image"
};

// Returns the key of `trial` in `run`. `digest` is the digest of the trial's image. `inputs` holds
// content_digest() of each element of Trial::inputs.
//
// The key always contains the image's digest and the list of outputs. With an empty Cache::key, the cache key
// also contains these fields: entrypoint, cmd, env, workdir, user, params, platform, volumes, networks, gpus,
// inputs, metrics, `docker` and `kubernetes`. The key does not depend on the contents of volumes. The key
// never contains labels, ports, dependencies, the priority or time limits. The key contains name, cpus and
// memory only if Cache::key names them.
//
// If the run's id has at least 12 characters, a fixed placeholder replaces the id wherever it occurs in the
// key. A shorter id is not replaced, because it may be part of an unrelated text.
[[nodiscard]] CacheKey cache_key(const Trial& trial, const RunId& run, std::string_view digest,
                                 const std::vector<std::string>& inputs);

// Describes each difference between two cache keys for the user, such as "params.lr is 0.2, but was 0.1".
// Returns no text if the keys are equal. Both arguments are CacheKey::parts.
[[nodiscard]] std::vector<std::string> differences(std::string_view now, std::string_view before);

}  // namespace combu

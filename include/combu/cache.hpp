#pragma once
// What makes trials equal: all that goes into one, before it runs, as a JSON object and as its hash.

#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

struct CacheKey {
  std::string hash;   // SHA-256, in hexadecimal digits
  std::string parts;  // a JSON object, in the order of its keys: "image", "cmd", "env", …
};

// `inputs`: content_digest() of each of Trial::inputs.
// The image (`digest`), the outputs, and with an empty Cache::key all that decides what comes out:
// entrypoint, cmd, env, workdir, user, params, platform, volumes (not what is in them), networks, gpus,
// inputs, metrics and the `docker` section. Not: name, labels, ports, what it depends on, and how much it
// gets of the host, and for how long. The run's id counts nowhere, wherever it stands, unless it is so short
// that other things may be called the same.
[[nodiscard]] CacheKey cache_key(const Trial& trial, const RunId& run, std::string_view digest,
                                 const std::vector<std::string>& inputs);

// As people say it: "params.lr is 0.2, and was 0.1"; none: they are equal. Both are CacheKey::parts.
[[nodiscard]] std::vector<std::string> differences(std::string_view now, std::string_view before);

}  // namespace combu

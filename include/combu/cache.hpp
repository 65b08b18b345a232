#pragma once
// What makes trials equal: all that goes into one, before it runs, as a JSON object and as its hash.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

// By Input::to: the hash of what is put there.
using InputHashes = std::map<std::string, std::string>;

struct CacheKey {
  std::string hash;   // SHA-256, in hexadecimal digits
  std::string parts;  // a JSON object, in the order of its keys: "image", "cmd", "env", …
};

// The image (`digest`), the outputs' paths, and with an empty Cache::key all that decides what comes out:
// entrypoint, cmd, env, workdir, user, params, platform, volumes (not what is in them), networks, gpus,
// inputs, metrics and the `docker` section. Not: name, labels, ports, what it depends on, and how much it
// gets of the host, and for how long. The run's id counts nowhere, wherever it stands, unless it is so short
// that other things may be called the same.
[[nodiscard]] CacheKey cache_key(const Trial& trial, const RunId& run, std::string_view digest,
                                 const InputHashes& inputs);

// As people say it: "params.lr is 0.2, and was 0.1"; none: they are equal. Both are CacheKey::parts.
[[nodiscard]] std::vector<std::string> differences(std::string_view now, std::string_view before);

// Of a file, its name aside, or of a folder and all that is in it: names, links, contents and whether they
// may be executed. Throws Error: not_found, refused.
[[nodiscard]] std::string content_hash(const std::string& path);

// Of what a trial has left at `path`, relative to its place, by its manifest's text: of other things than
// content_hash(), so that the two are never equal. Empty when there is nothing.
[[nodiscard]] std::string manifest_hash(const std::string& manifest, std::string_view path);

}  // namespace combu

#pragma once
// The results that an agent leaves in its container when it ends (docs/agent.md). The file comes from a
// container, and may contain anything. Its readers need little memory, however large the file is.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"

namespace combu::workers {

struct Result {
  agent::Started started;
  agent::Ended ended;
  std::uint32_t number = 0;  // position of `ended` among the ends of the file; 1 is the first one
};

// Reads the ends of attempts, which are the first part of the file.
class EndsReader {
 public:
  // Returns false if the rest of the file has no further ends.
  bool take(const agent::Frame& frame);
  // Results of the part that was read. A result without its Started is left out.
  std::vector<Result> results;
  bool is_whole = false;  // the list of ends was read to its end

 private:
  agent::Started started_;
  std::uint32_t ends_ = 0;
  std::size_t size_ = 0;
};

// Reads the log of the result `number`, and passes its chunks to `sink`.
class ResultLogReader {
 public:
  using Sink = std::function<void(const agent::LogChunk&)>;
  ResultLogReader(std::uint32_t number, Sink sink) : number_(number), sink_(std::move(sink)) {}
  // Returns false if the rest of the file has no further chunks.
  bool take(const agent::Frame& frame);
  bool is_whole = false;  // no part of the log is missing

 private:
  std::uint32_t number_;
  Sink sink_;
};

// Passes the frames of the file `path` of the container `worker` to `take` until it returns false. Calls
// `take` in another thread, while the caller waits. Returns false if there is no such file. Throws Error like
// read_file() of the engine.
bool read_results(Engine& engine, const Key& worker, const std::string& path,
                  const std::function<bool(const agent::Frame&)>& take, const std::stop_token& stop);

}  // namespace combu::workers

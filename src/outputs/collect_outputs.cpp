#include <string>
#include <utility>

#include "combu/outputs.hpp"
#include "outputs/manifest.hpp"
#include "outputs/unpack.hpp"

namespace combu {
namespace {

class Bearer {
 public:
  Bearer(Engine& engine, const Key& key, OutputWriter& writer, const std::stop_token& stop)
      : engine_(engine), key_(key), writer_(writer), stop_(stop) {}

  void collect(const Output& output) {
    const outputs::Unpacking how{.place = output.path.substr(1),
                                 .size_max = output.size_max,
                                 .subject = output.path_in_container(),
                                 .stop = stop_};
    const auto unpack = [&](const NextBytes& next) {
      outputs::unpack(next, how, writer_, collection_, sums_);
    };
    const bool found = read_archive(engine_, key_, output.path_in_container(), unpack, stop_);
    if (!found && output.required)
      throw Error(ErrorKind::invalid, output.path_in_container(), "there is no such output");
  }

  [[nodiscard]] std::string manifest() const { return outputs::manifest_of(sums_); }
  [[nodiscard]] CollectionResult collection() && { return std::move(collection_); }

 private:
  Engine& engine_;
  const Key& key_;
  OutputWriter& writer_;
  const std::stop_token& stop_;
  CollectionResult collection_;
  outputs::Checksums sums_;
};

CollectionResult collect(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                         OutputStore& output_store, const std::string& place, const std::stop_token& stop) {
  const std::unique_ptr<OutputWriter> writer = output_store.open(place, stop);
  Bearer bearer(engine, key, *writer, stop);
  for (const Output& output : outputs) bearer.collect(output);
  std::string unremoved = writer->close(bearer.manifest());
  CollectionResult collection = std::move(bearer).collection();
  collection.unremoved = std::move(unremoved);
  return collection;
}

}  // namespace

std::string partial_place(const std::string& trial) {
  return trial + "@so-far";
}

CollectionResult collect_outputs(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop) {
  return collect(engine, key, outputs, output_store, key.trial, stop);
}

CollectionResult collect_partial(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop) {
  std::vector<Output> there = outputs;
  for (Output& output : there) output.required = false;
  return collect(engine, key, there, output_store, partial_place(key.trial), stop);
}

}  // namespace combu

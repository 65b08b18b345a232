#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "combu/outputs.hpp"
#include "outputs/pipe.hpp"
#include "outputs/unpack.hpp"

namespace combu {
namespace {

class Bearer {
 public:
  Bearer(Engine& engine, const Key& key, Parcel& parcel, const std::stop_token& stop)
      : engine_(engine), key_(key), parcel_(parcel), stop_(stop) {}

  void take(const Output& output) {
    const outputs::Unpacking how{
        .place = output.path.substr(1), .size_max = output.size_max, .subject = output.path, .stop = stop_};
    outputs::Pipe pipe;
    std::exception_ptr fault;  // of what becomes of the bytes
    bool any = false;
    const auto read = [&] {
      const std::string_view bytes = pipe.read();
      any |= !bytes.empty();
      return bytes;
    };
    std::jthread unpacks([&] {
      try {
        // An output that is not there is no archive.
        if (const std::string first(read()); any) {
          bool again = false;
          outputs::unpack([&] { return std::exchange(again, true) ? read() : std::string_view(first); }, how,
                          parcel_, taken_, manifest_);
        }
      } catch (...) {
        fault = std::current_exception();
      }
      pipe.leave();
    });
    std::exception_ptr cut;  // of how they come
    bool found = false;
    try {
      found = engine_.copy_out(
          key_, output.path,
          [&](std::string_view bytes) {
            if (!pipe.write(bytes)) throw Error(ErrorKind::cancelled, output.path, "nobody takes it");
          },
          stop_);
    } catch (...) {
      cut = std::current_exception();
    }
    pipe.end(cut);
    unpacks.join();
    // Where the bytes were not wanted any more, that is why.
    if (fault) std::rethrow_exception(fault);
    if (cut) std::rethrow_exception(cut);
    if (!found && output.required) throw Error(ErrorKind::invalid, output.path, "there is no such output");
  }

  [[nodiscard]] const std::string& manifest() const { return manifest_; }
  [[nodiscard]] Taken taken() && { return std::move(taken_); }

 private:
  Engine& engine_;
  const Key& key_;
  Parcel& parcel_;
  const std::stop_token& stop_;
  Taken taken_;
  std::string manifest_;
};

Taken take(Engine& engine, const Key& key, const std::vector<Output>& outputs, Depot& depot,
           const std::string& place, const std::stop_token& stop) {
  const std::unique_ptr<Parcel> parcel = depot.open(place, stop);
  Bearer bearer(engine, key, *parcel, stop);
  for (const Output& output : outputs) bearer.take(output);
  std::string unremoved = parcel->close(bearer.manifest());
  Taken taken = std::move(bearer).taken();
  taken.unremoved = std::move(unremoved);
  return taken;
}

}  // namespace

std::string place_so_far(const std::string& trial) {
  return trial + "@so-far";
}

Taken take_home(Engine& engine, const Key& key, const std::vector<Output>& outputs, Depot& depot,
                const std::stop_token& stop) {
  return take(engine, key, outputs, depot, key.trial, stop);
}

Taken take_so_far(Engine& engine, const Key& key, const std::vector<Output>& outputs, Depot& depot,
                  const std::stop_token& stop) {
  std::vector<Output> there = outputs;
  for (Output& output : there) output.required = false;
  return take(engine, key, there, depot, place_so_far(key.trial), stop);
}

}  // namespace combu

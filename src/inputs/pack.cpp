#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>

#include "combu/inputs.hpp"
#include "inputs/content.hpp"
#include "inputs/walk.hpp"

namespace combu {
namespace {

using inputs::Found;
using Writer = std::unique_ptr<archive, decltype(&archive_write_free)>;
using Entry = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;

constexpr int k_block = 64 << 10;

class Packer {
 public:
  Packer(const InputOwner& owner, const std::function<bool(std::string_view)>& sink)
      : owner_(owner), sink_(sink) {
    // The archive has GNU format rather than POSIX format, because names in GNU format are bytes without a
    // character encoding.
    check(archive_write_set_format_gnutar(writer_.get()));
    check(archive_write_set_bytes_per_block(writer_.get(), k_block));
    check(archive_write_set_bytes_in_last_block(writer_.get(), 1));
    check(archive_write_open(writer_.get(), this, nullptr, &Packer::pass_on, nullptr));
  }
  // Setting is_over_ keeps libarchive from writing the end of an incomplete archive.
  ~Packer() { is_over_ = true; }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  // Adds `input` to the archive. Returns the content_digest() of the input; nullopt if `sink` has returned
  // false.
  std::optional<std::string> add(const Input& input) {
    inputs::Content content;
    if (!inputs::walk(input, [&](const Found& found) { return add(input, found, content); }))
      return std::nullopt;
    return content.digest();
  }
  // Adds a file. Returns false if `sink` has returned false.
  bool add(const std::string& path, const std::string& content) {
    path_ = path;
    archive_entry_clear(entry_.get());
    archive_entry_set_pathname(entry_.get(), path.substr(1).c_str());
    archive_entry_set_mode(entry_.get(), S_IFREG | 0444);
    archive_entry_set_uid(entry_.get(), owner_.uid);
    archive_entry_set_gid(entry_.get(), owner_.gid);
    archive_entry_set_size(entry_.get(), static_cast<la_int64_t>(content.size()));
    return check(archive_write_header(writer_.get(), entry_.get())) && write(content);
  }
  bool close() { return check(archive_write_close(writer_.get())); }

 private:
  static la_ssize_t pass_on(archive* writer, void* of, const void* bytes, std::size_t size) {
    auto& self = *static_cast<Packer*>(of);
    if (self.is_over_) {
      archive_set_error(writer, ECANCELED, "cancelled");
      return ARCHIVE_FATAL;
    }
    try {
      self.is_unwanted_ = self.is_unwanted_ || !self.sink_({static_cast<const char*>(bytes), size});
    } catch (...) {
      self.is_unwanted_ = true;
      self.fault_ = std::current_exception();  // exceptions must not pass through libarchive
    }
    // pass_on() returns success even after an error, because libarchive would leak its buffer otherwise.
    // check() reports the error.
    return static_cast<la_ssize_t>(size);
  }

  bool check(int result) {
    if (fault_) std::rethrow_exception(fault_);
    if (is_unwanted_) return false;
    if (result >= ARCHIVE_WARN) return true;
    const char* why = archive_error_string(writer_.get());
    throw Error(ErrorKind::refused, "inputs",
                fmt::format("{} cannot be packed: {}", path_, why == nullptr ? "?" : why));
  }

  bool add(const Input& input, const Found& found, inputs::Content& content) {
    path_ = found.path;
    content.add(found);
    const auto& status = found.status;
    archive_entry_clear(entry_.get());
    archive_entry_set_pathname(entry_.get(), (input.to.substr(1) + std::string(found.name)).c_str());
    archive_entry_set_mode(entry_.get(), status.st_mode);
    archive_entry_set_mtime(entry_.get(), status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    archive_entry_set_uid(entry_.get(), owner_.uid);
    archive_entry_set_gid(entry_.get(), owner_.gid);
    if (S_ISLNK(status.st_mode)) archive_entry_set_symlink(entry_.get(), found.target.c_str());
    archive_entry_set_size(entry_.get(), S_ISREG(status.st_mode) ? status.st_size : 0);
    if (!check(archive_write_header(writer_.get(), entry_.get()))) return false;
    if (!S_ISREG(status.st_mode)) return true;
    return inputs::read_file(found, [&](std::string_view bytes) {
      content.add(bytes);
      return write(bytes);
    });
  }

  bool write(std::string_view bytes) {
    return check(static_cast<int>(
        std::min<la_ssize_t>(archive_write_data(writer_.get(), bytes.data(), bytes.size()), ARCHIVE_OK)));
  }

  InputOwner owner_;
  const std::function<bool(std::string_view)>& sink_;
  bool is_over_ = false;
  Writer writer_{archive_write_new(), &archive_write_free};
  Entry entry_{archive_entry_new(), &archive_entry_free};
  std::string path_;  // path of the entry that is being packed, for messages
  bool is_unwanted_ = false;
  std::exception_ptr fault_;
};

// Returns -1 if `text` is not a number.
std::int64_t number(std::string_view text) {
  return parse_number<std::int64_t>(text).value_or(-1);
}

}  // namespace

InputOwner input_owner(const Trial& trial) {
  const std::string_view user = trial.process.user;
  const std::size_t colon = user.find(':');
  const std::int64_t uid = number(user.substr(0, colon));
  if (uid < 0) return {};
  const std::int64_t gid = colon == std::string_view::npos ? 0 : number(user.substr(colon + 1));
  return {.uid = uid, .gid = std::max<std::int64_t>(gid, 0)};
}

std::optional<std::vector<std::string>> pack_inputs(const std::vector<Input>& inputs, const InputOwner& owner,
                                                    const std::function<bool(std::string_view)>& sink,
                                                    const std::map<std::string, std::string>& files) {
  Packer packer(owner, sink);
  std::vector<std::string> digests;
  for (const Input& input : inputs) {
    auto digest = packer.add(input);
    if (!digest) return std::nullopt;
    digests.push_back(std::move(*digest));
  }
  for (const auto& [path, content] : files)
    if (!packer.add(path, content)) return std::nullopt;
  if (!packer.close()) return std::nullopt;
  return digests;
}

std::map<std::string, std::string> read_input(const Input& input, Bytes most, const std::stop_token& stop) {
  const auto size_max = static_cast<std::size_t>(most.count);
  std::map<std::string, std::string> files;
  inputs::walk(input, [&](const Found& found) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, input.from, "cancelled");
    if (!S_ISREG(found.status.st_mode)) return true;
    std::string& content = files[input.to + std::string(found.name)];
    (void)inputs::read_file(found, [&](std::string_view bytes) {
      content += bytes.substr(0, size_max - content.size());
      return content.size() < size_max;
    });
    return true;
  });
  return files;
}

}  // namespace combu

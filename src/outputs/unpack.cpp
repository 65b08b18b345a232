#include "outputs/unpack.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace combu::outputs {
namespace {

// Maximum size of a file whose digest is computed on this thread. A separate thread computes the digest of a
// larger file.
constexpr std::int64_t k_summed_here_max = std::int64_t{1} << 20U;

// The limit for an output without `max_size`. The sum of the limits of several outputs still fits into Bytes.
constexpr Bytes k_size_max{std::int64_t{1} << 60U};

using Reader = std::unique_ptr<archive, decltype(&archive_read_free)>;

// Computes the digest of a large file on a separate thread, so that the digest does not slow down the
// writing.
class SumBeside {
 public:
  SumBeside()
      : thread_([this] {
          for (std::string_view bytes = pipe_.read(); !bytes.empty(); bytes = pipe_.read()) sum_.add(bytes);
        }) {}
  ~SumBeside() { pipe_.end(nullptr); }
  SumBeside(const SumBeside&) = delete;
  SumBeside& operator=(const SumBeside&) = delete;

  void add(std::string_view bytes) { pipe_.write(bytes); }
  // Returns the digest. No add() may follow.
  [[nodiscard]] std::string text() {
    pipe_.end(nullptr);
    thread_.join();
    return sum_.text();
  }

 private:
  BytePipe pipe_;
  Sha256 sum_;
  std::jthread thread_;
};

// Splits a path of the archive into components; nullopt if the path leads out of the archive.
std::optional<std::vector<std::string>> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  if (path.starts_with('/')) return std::nullopt;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

class Unpacker {
 public:
  Unpacker(const NextBytes& read, const Unpacking& how, OutputWriter& writer)
      : read_(read),
        source_(read),
        how_(how),
        writer_(writer),
        reader_(archive_read_new(), &archive_read_free) {
    check(source_.open(reader_.get()));
  }

  void run(CollectionResult& collection, Checksums& sums) {
    archive_entry* entry = nullptr;
    while (true) {
      const int result = archive_read_next_header(reader_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      check(result);
      expect_wanted();
      extract(entry, collection, sums);
    }
    // Ignore data after the end of the archive, but read it, so that the sender can finish.
    while (!read_().empty()) {
    }
  }

 private:
  // A name that is invalid in this process's locale causes only a warning: libarchive keeps the name's bytes.
  void check(int result) {
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    source_.rethrow();
    const char* why = archive_error_string(reader_.get());
    throw Error(
        ErrorKind::corrupt, how_.subject,
        fmt::format("the engine's archive of this output cannot be read: {}", why == nullptr ? "?" : why));
  }

  void expect_wanted() const {
    if (how_.stop.stop_requested()) throw Error(ErrorKind::cancelled, how_.subject, "cancelled");
  }

  // Returns the entry's path below the trial's folder.
  [[nodiscard]] std::string path_of(const char* name) const {
    const auto parts = parts_of(name == nullptr ? "" : name);
    if (!parts || parts->empty())
      throw Error(ErrorKind::corrupt, how_.subject,
                  fmt::format("the engine's archive of this output has an entry outside the output: {}",
                              shortened(name == nullptr ? "" : name)));
    std::string path = how_.place;
    for (std::size_t i = 1; i < parts->size(); ++i) path += '/' + (*parts)[i];
    return path;
  }

  void extract(archive_entry* entry, CollectionResult& collection, Checksums& sums) {
    OutputEntry it{.path = path_of(archive_entry_pathname(entry)),
                   .mode = static_cast<unsigned>(archive_entry_perm(entry)),
                   .modified = file_time(archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)),
                   .size = archive_entry_size(entry)};
    if (const char* other = archive_entry_hardlink(entry); other != nullptr)
      return add_hard_link(std::move(it), path_of(other), collection);
    switch (archive_entry_filetype(entry)) {
      case AE_IFREG:
        return write_file(it, collection, sums);
      case AE_IFDIR:
        it.kind = OutputEntry::Kind::folder;
        return writer_.add(it);
      case AE_IFLNK: {
        const char* target = archive_entry_symlink(entry);
        it.kind = OutputEntry::Kind::symbolic_link;
        it.target = target == nullptr ? "" : target;
        return add_link(it);
      }
      default:
        collection.left.push_back(it.path);
    }
  }

  void add_link(const OutputEntry& it) {
    symbolic_links_[it.path] = it.target;
    writer_.add(it);
  }

  // A hard link in an engine's archive may name any earlier entry, also a symbolic link.
  void add_hard_link(OutputEntry it, const std::string& of, CollectionResult& collection) {
    if (const auto link = symbolic_links_.find(of); link != symbolic_links_.end()) {
      it.kind = OutputEntry::Kind::symbolic_link;
      it.target = link->second;
      add_link(it);
    } else if (files_.contains(of)) {
      it.kind = OutputEntry::Kind::hard_link;
      it.target = of;
      files_.insert(it.path);
      writer_.add(it);
    } else {
      collection.left.push_back(it.path);
    }
  }

  static std::string_view zeros(std::int64_t most) {
    static constexpr std::array<char, std::size_t{64} << 10U> k_zeros{};
    return std::string_view(k_zeros.data(), k_zeros.size()).substr(0, static_cast<std::size_t>(most));
  }

  // Passes the content of the current file to the writer and returns its digest.
  template <class Sum>
  std::string write_content(std::int64_t size) {
    Sum sum;
    std::int64_t come = 0;
    const auto extract = [&](std::string_view bytes) {
      // called for each piece, because a few bytes of the archive may stand for a huge hole
      expect_wanted();
      sum.add(bytes);
      writer_.write(bytes);
      come += static_cast<std::int64_t>(bytes.size());
    };
    while (true) {
      const void* block = nullptr;
      std::size_t count = 0;
      la_int64_t at = 0;
      const int result = archive_read_data_block(reader_.get(), &block, &count, &at);
      if (result == ARCHIVE_EOF) break;
      check(result);
      // For a sparse entry, libarchive returns only the data between the holes, so write zeros for the holes.
      while (come < at) extract(zeros(at - come));
      extract({static_cast<const char*>(block), count});
    }
    if (come != size)
      throw Error(ErrorKind::corrupt, how_.subject, "the engine's archive of this output ends within a file");
    return sum.text();
  }

  void write_file(const OutputEntry& it, CollectionResult& collection, Checksums& sums) {
    const bool has_limit = how_.size_max.count > 0;
    const Bytes size_max = has_limit ? how_.size_max : k_size_max;
    if (it.size > size_max.count - size_)
      throw Error(
          ErrorKind::invalid, how_.subject,
          fmt::format("is larger than {}{}", has_limit ? "its max_size of " : "", to_string(size_max)));
    size_ += it.size;
    writer_.add(it);
    const std::string sum =
        it.size > k_summed_here_max ? write_content<SumBeside>(it.size) : write_content<Sha256>(it.size);
    files_.insert(it.path);
    ++collection.files;
    collection.size.count += it.size;
    sums.insert_or_assign(it.path, sum);
  }

  const NextBytes& read_;
  ArchiveSource source_;
  const Unpacking& how_;
  OutputWriter& writer_;
  Reader reader_;
  std::int64_t size_ = 0;
  std::unordered_set<std::string> files_;  // paths of all files so far, including hard links
  std::unordered_map<std::string, std::string> symbolic_links_;  // path to target
};

}  // namespace

void unpack(const NextBytes& read, const Unpacking& how, OutputWriter& writer, CollectionResult& collection,
            Checksums& sums) {
  Unpacker(read, how, writer).run(collection, sums);
}

}  // namespace combu::outputs

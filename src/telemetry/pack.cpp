#include "telemetry/pack.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace combu::telemetry {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t k_pack_size = 256LL << 10U;
// Maximum size in bytes of a decompressed pack. A pack may consist of one large piece of a log, but no piece
// of an engine's log is larger than this.
constexpr std::size_t k_plain_max = 1U << 31U;
constexpr int k_level = 3;
constexpr int k_window_log_max = 24;  // maximum of zstd's windowLog; k_level needs at most 21
constexpr std::size_t k_first_block = std::size_t{1} << 20U;

// The header that precedes each text in a pack. A Head is stored in the byte order of this machine.
struct Head {
  std::int64_t at = 0;  // nanoseconds since 1970
  std::uint32_t size = 0;
  std::uint32_t stream = 0;
};

void append(std::string& plain, const LogPiece& piece) {
  const Head head{.at = std::chrono::duration_cast<nanoseconds>(piece.at.time_since_epoch()).count(),
                  .size = static_cast<std::uint32_t>(piece.text.size()),
                  .stream = piece.stream == LogStream::err ? 1U : 0U};
  char bytes[sizeof head];
  std::memcpy(bytes, &head, sizeof head);
  plain.append(bytes, sizeof head).append(piece.text);
}

Error damage() {
  return {ErrorKind::corrupt, "", "the stored log is damaged"};
}

// Removes a Head from the front of `left`, which then begins with the text that belongs to the Head.
Head next_head(std::string_view& left) {
  Head head;
  if (left.size() < sizeof head) throw damage();
  std::memcpy(&head, left.data(), sizeof head);
  left.remove_prefix(sizeof head);
  if (left.size() < head.size) throw damage();
  return head;
}

bool each_piece(std::string_view left, const std::function<bool(const LogPiece&)>& sink) {
  while (!left.empty()) {
    const Head head = next_head(left);
    const LogPiece piece{.stream = head.stream == 0 ? LogStream::out : LogStream::err,
                         .text = left.substr(0, head.size),
                         .at = Instant(std::chrono::duration_cast<Instant::duration>(nanoseconds(head.at)))};
    if (!sink(piece)) return false;
    left.remove_prefix(head.size);
  }
  return true;
}

}  // namespace

std::string compressed(std::string_view plain) {
  std::string data(ZSTD_compressBound(plain.size()), '\0');
  const std::size_t size = ZSTD_compress(data.data(), data.size(), plain.data(), plain.size(), k_level);
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // out of memory is the only possible error
  data.resize(size);
  return data;
}

std::string decompressed(std::string_view data, std::size_t size_max) {
  const auto size = ZSTD_getFrameContentSize(data.data(), data.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) throw damage();
  if (size > size_max)
    throw Error(ErrorKind::corrupt, "",
                fmt::format("a compressed frame is larger than {}",
                            to_string(Bytes{static_cast<std::int64_t>(size_max)})));
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, k_window_log_max);
  ZSTD_inBuffer in{.src = data.data(), .size = data.size(), .pos = 0};
  std::string plain;
  for (std::size_t filled = 0;;) {
    plain.resize(std::min<std::size_t>(size, std::max(2 * filled, k_first_block)));
    ZSTD_outBuffer out{.dst = plain.data(), .size = plain.size(), .pos = filled};
    const std::size_t left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0) throw damage();
    if (left == 0) {
      if (in.pos != in.size || out.pos != size) throw damage();
      return plain;
    }
    // If decompression makes no progress because no input or no output space is left, the frame is truncated
    // or larger than expected.
    if (out.pos == filled && (in.pos == in.size || out.pos == size)) throw damage();
    filled = out.pos;
  }
}

std::vector<Pack> pack(std::span<const LogPiece> pieces) {
  std::vector<Pack> packs;
  std::string plain;
  Bytes size;
  const auto close = [&] {
    if (!plain.empty()) packs.push_back({.size = size, .data = compressed(plain)});
    plain.clear();
    size = {};
  };
  for (const LogPiece& piece : pieces) {
    append(plain, piece);
    size.count += static_cast<std::int64_t>(piece.text.size());
    if (size.count >= k_pack_size) close();
  }
  close();
  return packs;
}

Pack without_first(std::string_view data, std::size_t count) {
  const std::string whole = decompressed(data, k_plain_max);
  std::vector<LogPiece> pieces;
  each_piece(whole, [&](const LogPiece& piece) {
    pieces.push_back(piece);
    return true;
  });
  std::string plain;
  Bytes size;
  for (LogPiece& piece : pieces) {
    const std::size_t most = piece.text.size();
    std::size_t cut = std::min(count, most);
    if (cut > 0 && cut < most) {
      const std::size_t line = piece.text.find('\n', cut - 1);
      const std::size_t next = line == std::string_view::npos ? most : line + 1;
      if (next < most || &piece != &pieces.back()) cut = next;
    }
    count -= std::min(count, cut);
    piece.text.remove_prefix(cut);
    if (piece.text.empty()) continue;
    append(plain, piece);
    size.count += static_cast<std::int64_t>(piece.text.size());
  }
  return {.size = size, .data = compressed(plain)};
}

Content checked(std::string_view data, std::int64_t nanos_max) {
  // Maximum size in bytes of all Heads of a pack. The texts of a pack, except the last one, are together
  // smaller than k_pack_size. In the worst case, each byte of these texts has its own Head.
  constexpr std::size_t k_heads_max = sizeof(Head) * (k_pack_size + 1);
  const std::string plain = decompressed(data, k_foreign_pack_max + k_pack_size + k_heads_max);
  Content content{.plain = Bytes{static_cast<std::int64_t>(plain.size())}};
  for (std::string_view left = plain; !left.empty();) {
    const Head head = next_head(left);
    if (head.stream > 1 || head.at > nanos_max || head.at < -nanos_max) throw damage();
    content.text.count += head.size;
    left.remove_prefix(head.size);
  }
  return content;
}

bool unpack(std::string_view data, const std::function<bool(const LogPiece&)>& sink) {
  return each_piece(decompressed(data, k_plain_max), sink);
}

}  // namespace combu::telemetry

#pragma once
// The protocol between combu and its agent. The agent is a program that runs inside a container, and runs
// many attempts there. docs/agent.md describes the protocol. The agent's own program compiles this header and
// src/agent/protocol.cpp without exceptions, so both use only the standard library and throw nothing.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace combu::agent {

// Returns the bytes of the agent's program for a platform such as "linux/amd64" or "linux/arm64/v8"; empty if
// this build has no program for the platform.
std::string_view program_for(std::string_view platform);

// The newest and the oldest version of the protocol that this program speaks.
inline constexpr std::uint16_t k_version = 1;
inline constexpr std::uint16_t k_version_oldest = 1;
// The first field of Hello, which shows that the other side speaks this protocol.
inline constexpr std::string_view k_magic = "combu-agent";
// Maximum size in bytes of a frame's payload.
inline constexpr std::size_t k_payload_max = std::size_t{1} << 20U;
// Maximum size in bytes of the parts in which a log or an archive is sent.
inline constexpr std::size_t k_part_max = std::size_t{64} << 10U;
// Number of bytes of the answer to ReadLog or Collect that the agent sends before it waits for More.
inline constexpr std::int64_t k_window = std::int64_t{4} << 20U;
// Number of bytes after which the client sends More. Agents of earlier versions wait after 1 MiB.
inline constexpr std::uint64_t k_more = std::uint64_t{256} << 10U;
// Maximum size in bytes of the argument or result of a call of a resident program.
inline constexpr std::size_t k_value_max = k_payload_max - 1024;
// Maximum size in bytes of a log that Ended carries.
inline constexpr std::size_t k_inline_log_max = std::size_t{16} << 10U;

// The id of the program of a container whose first process is the agent (`agent supervise`).
inline constexpr std::string_view k_supervised_id = "program";

// ---- Frames

enum class FrameType : std::uint8_t {
  // From the client to the agent.
  hello = 1,
  start = 2,
  put = 3,
  stop = 4,
  forget = 5,
  read_log = 6,
  collect = 7,
  cancel = 8,
  get_usage = 9,
  call = 10,
  ping = 11,
  more = 12,
  collect_rest = 13,
  // From the agent to the client.
  welcome = 64,
  started = 65,
  refused = 66,
  ended = 67,
  listed = 68,
  log = 69,
  data = 70,
  done = 71,
  usage = 72,
  returned = 73,
  pong = 74,
  fault = 75,
};

// A frame is a header and a payload. The header has 9 bytes: the size of the payload (32 bits), the CRC-32C
// (RFC 3720, Castagnoli) of the type and the payload (32 bits), and the type (8 bits). All numbers are
// little-endian.
inline constexpr std::size_t k_header_size = 9;

struct Frame {
  FrameType type = FrameType::hello;
  std::string_view payload;
};

// Returns the CRC-32C of some bytes that are followed by `bytes`. `crc`: the CRC-32C of the former; 0 if
// there are none.
[[nodiscard]] std::uint32_t crc_after(std::uint32_t crc, std::string_view bytes);

// Appends a frame to `out`.
void append_frame(std::string& out, FrameType type, std::string_view payload);

// Finds the frames in a stream of bytes.
class FrameReader {
 public:
  enum class Result {
    frame,
    incomplete,  // the next frame has not arrived completely
    corrupt,     // the stream has no valid frame at this position; the reader returns `corrupt` from now on
  };
  void feed(std::string_view bytes);
  // Sets `frame` if the result is `frame`. The payload is valid until the next call of feed() or next().
  [[nodiscard]] Result next(Frame& frame);

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // position of the next frame in `bytes_`
  bool is_corrupt_ = false;
};

// ---- Messages: the payloads of frames

// A piece of an attempt's output, as the agent read it.
struct LogChunk {
  std::int64_t at = 0;      // nanoseconds since 1970
  std::uint8_t stream = 0;  // 1: standard output, 2: standard error
  std::string bytes;
  template <class Fields>
  void visit(Fields& fields) {
    fields(at, stream, bytes);
  }
};

// A file that the agent writes into the scratch folder of an attempt.
struct File {
  std::string name;  // without slashes
  std::string content;
  template <class Fields>
  void visit(Fields& fields) {
    fields(name, content);
  }
};

struct Hello {
  static constexpr FrameType k_type = FrameType::hello;
  std::string magic = std::string(k_magic);
  std::uint16_t version_oldest = k_version_oldest;
  std::uint16_t version = k_version;
  template <class Fields>
  void visit(Fields& fields) {
    fields(magic, version_oldest, version);
  }
};

// Starts an attempt. If the agent knows the id already, it answers with the attempt's state instead.
struct Start {
  static constexpr FrameType k_type = FrameType::start;
  std::string id;                 // at most 255 bytes
  std::vector<std::string> argv;  // not empty
  std::vector<std::string> env;   // "NAME=VALUE"; replaces variables of the agent's own environment
  std::vector<File> files;
  std::uint64_t timeout_ms = 0;  // 0: no timeout
  std::uint64_t grace_ms = 0;    // from the stop signal to SIGKILL
  std::uint8_t stop_signal = 0;
  std::uint64_t log_max = 0;  // number of bytes of output that the agent keeps; it drops the oldest ones
  // 1: the attempt begins after the last Put.
  std::uint8_t awaits_inputs = 0;
  // 1: a resident program, which gets calls on descriptor 3 and returns values on descriptor 4.
  std::uint8_t is_resident = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, argv, env, files, timeout_ms, grace_ms, stop_signal, log_max, awaits_inputs, is_resident);
  }
};

// A part of a tar archive, which the agent unpacks in the scratch folder of the attempt.
struct Put {
  static constexpr FrameType k_type = FrameType::put;
  std::string id;
  std::string bytes;
  std::uint8_t is_last = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, bytes, is_last);
  }
};

struct Stop {
  static constexpr FrameType k_type = FrameType::stop;
  std::string id;
  std::int64_t grace_ms = -1;  // -1: the attempt's own
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, grace_ms);
  }
};

// The results of these attempts are stored. The agent kills the attempts that still run, and forgets all of
// them.
struct Forget {
  static constexpr FrameType k_type = FrameType::forget;
  std::vector<std::string> ids;
  template <class Fields>
  void visit(Fields& fields) {
    fields(ids);
  }
};

// Asks for the chunks of an attempt's output at `since` or later. The agent answers with Log frames and Done.
struct ReadLog {
  static constexpr FrameType k_type = FrameType::read_log;
  std::uint32_t request = 0;
  std::string id;
  std::int64_t since = 0;      // nanoseconds since 1970
  std::uint8_t is_follow = 0;  // 1: Done follows only after the end of the attempt
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, id, since, is_follow);
  }
};

// Asks for a file or folder as a tar archive. A relative path begins at the attempt's scratch folder. The
// agent answers with Data frames and Done.
struct Collect {
  static constexpr FrameType k_type = FrameType::collect;
  std::uint32_t request = 0;
  std::string id;
  std::string path;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, id, path);
  }
};

// Like Collect, for an archive whose first `skip` bytes an earlier connection has brought. `crc`: their
// crc_after(). If the archive has changed since, the answer is Done with the status `changed`.
struct CollectRest {
  static constexpr FrameType k_type = FrameType::collect_rest;
  std::uint32_t request = 0;
  std::string id;
  std::string path;
  std::uint64_t skip = 0;
  std::uint32_t crc = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, id, path, skip, crc);
  }
};

// Ends a request of ReadLog or Collect. The agent answers with Done.
struct Cancel {
  static constexpr FrameType k_type = FrameType::cancel;
  std::uint32_t request = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request);
  }
};

// Lets the agent send `bytes` more bytes of the answer to ReadLog or Collect, because the client has consumed
// as many. Only the bytes of the log or archive count.
struct More {
  static constexpr FrameType k_type = FrameType::more;
  std::uint32_t request = 0;
  std::uint64_t bytes = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, bytes);
  }
};

struct GetUsage {
  static constexpr FrameType k_type = FrameType::get_usage;
  std::uint32_t request = 0;
  std::string id;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, id);
  }
};

// Calls a resident program. The agent answers with Returned, unless the program ends before it returns a
// value: then Ended is the only answer.
struct Call {
  static constexpr FrameType k_type = FrameType::call;
  std::string id;
  std::uint64_t call = 0;  // chosen by the client; Returned repeats it
  std::string bytes;       // at most k_value_max
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, call, bytes);
  }
};

struct Ping {
  static constexpr FrameType k_type = FrameType::ping;
  std::uint64_t number = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(number);
  }
};

// Welcome::note of a supervisor whose container has died and was started again.
inline constexpr std::string_view k_restarted_note = "restarted";

// The agent's answer to Hello. Started and Ended frames of all attempts that the agent knows follow, then
// Listed.
struct Welcome {
  static constexpr FrameType k_type = FrameType::welcome;
  std::uint16_t version = 0;  // the version that both sides use
  std::string boot;           // random; differs for each process of the agent
  std::int64_t now = 0;       // the agent's clock, in nanoseconds since 1970
  std::uint8_t has_cgroups = 0;
  std::string note;         // the argument NOTE with which the agent was started, or k_restarted_note
  std::uint64_t begun = 0;  // number of Start messages so far, without repeated ones
  template <class Fields>
  void visit(Fields& fields) {
    fields(version, boot, now, has_cgroups, note, begun);
  }
};

struct Started {
  static constexpr FrameType k_type = FrameType::started;
  std::string id;
  std::int64_t at = 0;         // nanoseconds since 1970
  std::uint64_t spawn_ns = 0;  // duration of fork and exec
  std::string scratch;         // absolute path of the attempt's scratch folder
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, at, spawn_ns, scratch);
  }
};

// The attempt could not be started. The agent does not know the id any more.
struct Refused {
  static constexpr FrameType k_type = FrameType::refused;
  enum Stage : std::uint8_t { other = 0, scratch = 1, process = 2, program = 3, inputs = 4 };
  std::string id;
  std::uint8_t stage = other;
  std::int32_t code = 0;  // errno
  std::string text;       // describes the failure if `code` is 0
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, stage, code, text);
  }
};

struct Ended {
  static constexpr FrameType k_type = FrameType::ended;
  enum Flag : std::uint32_t {
    timed_out = 1U,      // the agent stopped the attempt after its timeout
    stopped = 2U,        // the agent stopped the attempt because of a Stop frame
    out_of_memory = 4U,  // the kernel killed a process of the attempt for lack of memory
    log_is_whole = 8U,   // `log` is the whole log
    log_was_cut = 16U,   // the agent dropped the beginning of the log
    log_is_incomplete =
        32U  // the agent could not store a part of the log, for example because the disk is full
  };
  std::string id;
  std::int64_t at = 0;         // nanoseconds since 1970
  std::int32_t exit_code = 0;  // -1 if a signal ended the attempt
  std::uint8_t signal = 0;
  std::uint32_t flags = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;       // of the attempt's processes that have been waited for
  std::uint64_t memory_peak = 0;  // bytes; 0 if unknown
  std::uint32_t left_behind = 0;  // number of processes that the agent killed after the end of the attempt
  std::uint64_t log_size = 0;     // bytes of all output, including dropped output
  std::vector<LogChunk> log;
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, at, exit_code, signal, flags, wall_ns, cpu_ns, memory_peak, left_behind, log_size, log);
  }
};

struct Listed {
  static constexpr FrameType k_type = FrameType::listed;
  template <class Fields>
  void visit(Fields& fields) {
    fields();
  }
};

struct Log {
  static constexpr FrameType k_type = FrameType::log;
  std::uint32_t request = 0;
  std::vector<LogChunk> chunks;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, chunks);
  }
};

struct Data {
  static constexpr FrameType k_type = FrameType::data;
  std::uint32_t request = 0;
  std::string bytes;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, bytes);
  }
};

// Ends the answer to ReadLog or Collect, or is the only answer to a request that failed.
struct Done {
  static constexpr FrameType k_type = FrameType::done;
  enum Status : std::uint8_t {
    ok = 0,
    unknown_attempt = 1,
    absent = 2,      // Collect: the path does not exist
    unreadable = 3,  // Collect: the path cannot be read; `text` says why
    cancelled = 4,
    failed = 5,      // a failure of the agent's system, such as a lack of processes; a repeat may succeed
    incomplete = 6,  // ReadLog: the agent could not store a part of the log
    changed = 7,     // CollectRest: the archive does not begin with the skipped bytes
  };
  std::uint32_t request = 0;
  std::uint8_t status = ok;
  std::string text;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, status, text);
  }
};

struct UsageAnswer {
  static constexpr FrameType k_type = FrameType::usage;
  std::uint32_t request = 0;
  std::uint64_t memory = 0;  // bytes
  std::uint64_t cpu_ns = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(request, memory, cpu_ns);
  }
};

struct Returned {
  static constexpr FrameType k_type = FrameType::returned;
  enum Status : std::uint8_t {
    ok = 0,
    unknown_attempt = 1,
    not_running =
        2,     // the attempt is no resident program, has not been started, or does not read calls any more
    busy = 3,  // too many calls wait for the program; a repeat may succeed
    too_large = 4,  // the value, or that of the call, is larger than k_value_max
  };
  std::string id;
  std::uint64_t call = 0;
  std::uint8_t status = ok;
  std::string bytes;
  template <class Fields>
  void visit(Fields& fields) {
    fields(id, call, status, bytes);
  }
};

struct Pong {
  static constexpr FrameType k_type = FrameType::pong;
  std::uint64_t number = 0;
  template <class Fields>
  void visit(Fields& fields) {
    fields(number);
  }
};

// The last frame before the agent closes a connection, because the client has broken the protocol.
struct Fault {
  static constexpr FrameType k_type = FrameType::fault;
  std::string text;
  template <class Fields>
  void visit(Fields& fields) {
    fields(text);
  }
};

// ---- Encoding: integers are little-endian; texts and lists begin with their number of bytes or elements as
// 32 bits.

class Encoder {
 public:
  // Appends to `out`, which must live longer.
  explicit Encoder(std::string& out) : out_(out) {}
  template <class... Fields>
  void operator()(Fields&... fields) {
    (put(fields), ...);
  }

 private:
  template <class Number>
  requires std::is_integral_v<Number>
  void put(Number number) {
    auto rest = static_cast<std::make_unsigned_t<Number>>(number);
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      out_.push_back(static_cast<char>(rest & 0xFFU));
      if constexpr (sizeof(Number) > 1) rest >>= 8U;
    }
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  template <class Element>
  void put(std::vector<Element>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (Element& element : list) put(element);
  }
  template <class Structure>
  requires requires(Structure& structure, Encoder& encoder) { structure.visit(encoder); }
  void put(Structure& structure) { structure.visit(*this); }

  std::string& out_;
};

class Decoder {
 public:
  // Reads from `bytes`, which must live longer.
  explicit Decoder(std::string_view bytes) : left_(bytes) {}
  template <class... Fields>
  void operator()(Fields&... fields) {
    (take(fields), ...);
  }
  // True if all fields were present and nothing follows them.
  [[nodiscard]] bool is_whole() const { return is_valid_ && left_.empty(); }

 private:
  template <class Number>
  requires std::is_integral_v<Number>
  void take(Number& number) {
    if (!has(sizeof(Number))) return;
    std::make_unsigned_t<Number> value = 0;
    for (std::size_t i = sizeof(Number); i > 0; --i) {
      if constexpr (sizeof(Number) > 1) value <<= 8U;
      value |= static_cast<unsigned char>(left_[i - 1]);
    }
    number = static_cast<Number>(value);
    left_.remove_prefix(sizeof(Number));
  }
  void take(std::string& text) {
    std::uint32_t size = 0;
    take(size);
    if (!has(size)) return;
    text = left_.substr(0, size);
    left_.remove_prefix(size);
  }
  template <class Element>
  void take(std::vector<Element>& list) {
    std::uint32_t count = 0;
    take(count);
    list.clear();
    for (std::uint32_t i = 0; i < count && is_valid_; ++i) take(list.emplace_back());
  }
  template <class Structure>
  requires requires(Structure& structure, Decoder& decoder) { structure.visit(decoder); }
  void take(Structure& structure) { structure.visit(*this); }
  bool has(std::size_t size) {
    is_valid_ = is_valid_ && left_.size() >= size;
    return is_valid_;
  }

  std::string_view left_;
  bool is_valid_ = true;
};

// Appends the frame of a message to `out`.
template <class Message>
void append(std::string& out, Message message) {
  std::string payload;
  Encoder encoder(payload);
  message.visit(encoder);
  append_frame(out, Message::k_type, payload);
}

// Reads the payload of a frame of the type Message::k_type. Returns false if the payload is malformed.
template <class Message>
[[nodiscard]] bool decode(std::string_view payload, Message& message) {
  Decoder decoder(payload);
  message.visit(decoder);
  return decoder.is_whole();
}

// ---- The resident program

// The header of a call on descriptor 3, and of a returned value on descriptor 4 of a resident program: the
// number of the following bytes (32 bits) and the number of the call (64 bits), little-endian.
inline constexpr std::size_t k_call_header_size = 12;

}  // namespace combu::agent

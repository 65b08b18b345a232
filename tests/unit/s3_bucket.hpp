#pragma once
// A scripted bucket, and a fixture for tests of outputs in a bucket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "combu/outputs.hpp"
#include "record_folder.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::test {

using wire::Asked;
using wire::Reply;

// A clock that never waits and records the requested durations.
class Impatient final : public Clock {
 public:
  Instant now() override { return real_clock().now(); }
  void wait(Seconds duration, std::stop_token /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    waits_.push_back(duration.count());
  }
  [[nodiscard]] std::vector<double> waits() const {
    const std::scoped_lock lock(mutex_);
    return waits_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<double> waits_;
};

inline std::string header(const Asked& asked, const std::string& name) {
  std::istringstream lines(asked.head);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ": ")) return line.substr(name.size() + 2, line.size() - name.size() - 3);
  return "";
}

inline std::string fault(const std::string& code, const std::string& more = "") {
  return "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>words</Message>" + more +
         "</Error>";
}

// The bucket `lab` of a fake server, as far as the output store needs one.
class Bucket {
 public:
  // Returns a scripted reply to a request, or nullopt for the bucket's normal reply.
  using Trouble = std::function<std::optional<Reply>(const Asked&)>;

  Reply answer(const Asked& asked) {
    Reply reply = whole_answer(asked);
    if (asked.method == "HEAD" && reply.pieces.size() == 1) {
      std::string& text = reply.pieces.front();
      text.erase(text.find("\r\n\r\n") + 4);
    }
    return reply;
  }

  std::map<std::string, std::string> objects;                 // by "/lab/KEY"
  std::map<std::string, std::string> metadata;                // HTTP headers of each object
  std::map<std::string, std::string> written;                 // LastModified of each object
  std::map<std::string, std::map<int, std::string>> uploads;  // incomplete, by key and part number
  Trouble trouble;
  bool encodes = true;  // keys in listings are URL-encoded if the request asks for that
  bool knows_ranges = true;

 private:
  Reply whole_answer(const Asked& asked) {
    if (trouble)
      if (auto reply = trouble(asked)) return *reply;
    const std::size_t mark = asked.target.find('?');
    const std::string key = plain(asked.target.substr(0, mark));
    const std::string query = mark == std::string::npos ? "" : asked.target.substr(mark + 1);
    if (key == "/lab/") return list(query);
    if (query.starts_with("uploads=")) {
      uploads[key];
      metadata[key] = metadata_of(asked);
      return wire::whole(200, "<R><UploadId>" + std::string("id/1+") + "</UploadId></R>");
    }
    if (query.starts_with("partNumber=")) {
      // A client that gives up may abort the upload before the server has read the last part.
      if (!uploads.contains(key)) return wire::whole(404, fault("NoSuchUpload"));
      uploads[key][std::atoi(query.c_str() + 11)] = asked.body;
      return wire::whole(200, "", "ETag: \"tag-" + query.substr(11, query.find('&') - 11) + "\"\r\n");
    }
    if (query.starts_with("uploadId=")) return end_upload(asked, key);
    if (asked.method == "DELETE") {
      objects.erase(key);
      return wire::bare(204);
    }
    if (asked.method == "GET" || asked.method == "HEAD") {
      if (!objects.contains(key)) return wire::whole(404, fault("NoSuchKey"));
      const std::string range = header(asked, "range");
      if (range.empty() || !knows_ranges) return wire::whole(200, objects[key], metadata[key]);
      const std::size_t from = std::stoul(range.substr(std::string("bytes=").size()));
      if (from >= objects[key].size()) return wire::whole(416, fault("InvalidRange"));
      return wire::whole(206, objects[key].substr(from), metadata[key]);
    }
    const std::string source = plain(header(asked, "x-amz-copy-source"));
    if (!source.empty() && !objects.contains(source)) return wire::whole(404, fault("NoSuchKey"));
    metadata[key] = source.empty() ? metadata_of(asked) : metadata[source];
    std::array<char, 40> now{};
    std::snprintf(now.data(), now.size(), "2026-01-01T%02d:%02d:%02d.000Z", ticks_ / 3600, ticks_ / 60 % 60,
                  ticks_ % 60);
    ++ticks_;
    written[key] = now.data();
    objects[key] = source.empty() ? asked.body : objects[source];
    return wire::whole(200, source.empty() ? "" : "<CopyObjectResult></CopyObjectResult>", "ETag: \"x\"\r\n");
  }

  static std::string metadata_of(const Asked& asked) {
    std::string lines;
    for (const char* const name : {"x-amz-meta-mode", "x-amz-meta-mtime"})
      if (const std::string value = header(asked, name); !value.empty())
        lines += std::string(name) + ": " + value + "\r\n";
    return lines;
  }

  static std::string plain(const std::string& text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
      bytes += text[i] == '%' ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
      if (text[i] == '%') i += 2;
    }
    return bytes;
  }

  // Encodes a key as MinIO and Amazon do, or as versitygw does.
  [[nodiscard]] std::string listed(const std::string& key) const {
    std::string text;
    for (const char letter : key) {
      if (encodes) {
        text += letter == ' '    ? "+"
                : letter == '+'  ? "%2B"
                : letter == '\n' ? "%0A"
                : letter == '&'  ? "%26"
                : letter == '%'  ? "%25"
                                 : std::string(1, letter);
      } else {
        text += letter == '&' ? "&amp;" : letter == '\n' ? "&#xA;" : std::string(1, letter);
      }
    }
    return text;
  }

  // A page has two objects.
  Reply list(const std::string& query) {
    const std::string prefix = "/lab/" + plain(query.substr(query.find("prefix=") + 7));
    const bool goes_on = query.starts_with("continuation-token=");
    const std::string from = goes_on ? plain(query.substr(19, query.find('&') - 19)) : "";
    std::string xml = encodes ? "<ListBucketResult><EncodingType>url</EncodingType>"
                              : "<ListBucketResult><EncodingType></EncodingType>";
    std::size_t count = 0;
    for (const auto& [key, content] : objects) {
      if (!key.starts_with(prefix) || key < from) continue;
      if (++count > 2) {
        xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + key + "</NextContinuationToken>";
        break;
      }
      xml += "<Contents><Key>" + listed(key.substr(5)) + "</Key><Size>" + std::to_string(content.size()) +
             "</Size><LastModified>" + written[key] + "</LastModified></Contents>";
    }
    return wire::whole(200, xml + "</ListBucketResult>");
  }

  Reply end_upload(const Asked& asked, const std::string& key) {
    if (!uploads.contains(key)) return wire::whole(404, fault("NoSuchUpload"));
    if (asked.method == "POST") {
      objects[key].clear();
      for (const auto& [number, part] : uploads[key]) {
        EXPECT_THAT(asked.body,
                    testing::HasSubstr("<PartNumber>" + std::to_string(number) + "</PartNumber><ETag>\"tag-" +
                                       std::to_string(number) + "\"</ETag>"));
        objects[key] += part;
      }
    }
    uploads.erase(key);
    return asked.method == "POST" ? wire::whole(200, "<CompleteMultipartUploadResult/>") : wire::bare(204);
  }

  int ticks_ = 0;  // one second for each object
};

class S3 : public testing::Test {
 protected:
  using Contents = std::vector<std::pair<std::string, std::string>>;

  S3() {
    variables_ = {{"AWS_ACCESS_KEY_ID", "the-key"},
                  {"AWS_SECRET_ACCESS_KEY", "the-secret"},
                  {"S3_ENDPOINT_URL", "http" + server_.address().substr(3)}};
    caller_.env = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
    caller_.home = folder_.path();
  }

  static void add(OutputWriter& writer, const std::string& path, const std::string& content,
                  unsigned mode = 0640) {
    writer.add({.path = path,
                .mode = mode,
                .modified = Instant(std::chrono::milliseconds(1000000000500)),
                .size = static_cast<std::int64_t>(content.size())});
    writer.write(content);
  }
  void bring(const Contents& contents, const std::string& manifest = "sums\n") {
    const auto writer = output_store_->open("t", {});
    for (const auto& [path, content] : contents) add(*writer, path, content);
    writer->close(manifest);
  }
  // Sends `reply` to every further request.
  void answer(const Reply& reply) {
    bucket_.trouble = [reply](const Asked&) { return reply; };
  }
  std::optional<Error> fault_of(const std::function<void()>& what) {
    try {
      what();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::Not(testing::AnyOf(testing::HasSubstr("the-secret"),
                                                            testing::HasSubstr("the-key"))));
      return error;
    }
    return std::nullopt;
  }
  std::string check() {
    const auto fault = fault_of([&] { check_s3("s3://lab/a/run", caller_, {}, clock_); });
    return fault ? fault->what() : "";
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, content] : bucket_.objects) keys.push_back(key);
    return keys;
  }

  test::Folder folder_{"s3"};
  Impatient clock_;
  Bucket bucket_;
  wire::ScriptedDaemon server_{[this](const Asked& asked) { return bucket_.answer(asked); },
                               wire::ScriptedDaemon::Kind::tcp};
  std::map<std::string, std::string> variables_;
  Caller caller_;
  std::unique_ptr<OutputStore> output_store_;
  // SetUp() runs after all members are constructed.
  void SetUp() override { output_store_ = open_s3("s3://lab/a/run", caller_, clock_); }
};

}  // namespace combu::test

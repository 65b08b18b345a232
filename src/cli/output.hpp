#pragma once

#include <array>
#include <ostream>
#include <streambuf>
#include <string_view>

namespace combu {

// A standard file that the caller has closed would be the first one that is opened, an engine's socket. From
// now on it is one that can be neither read nor written. Call it first.
void hold_standard_files();

// Writes data to standard output, at once. False when its reader has gone (`combu ps | head`): that is no
// error, and there is no use in writing more. Throws Error(refused) when it cannot be written otherwise.
[[nodiscard]] bool put_out(std::string_view data);
// The same to standard error.
[[nodiscard]] bool put_err(std::string_view data);

// Standard output as a stream, for what is too much to be kept until all of it is there: it goes on by
// put_out(), in pieces, the last one at flush(). What is written after its reader has gone is dropped.
class OutStream : public std::ostream {
 public:
  OutStream();

 private:
  class Buffer : public std::streambuf {
   public:
    Buffer() { clear(); }

   protected:
    int_type overflow(int_type letter) override;
    int sync() override;

   private:
    void clear() { setp(piece_.data(), piece_.data() + piece_.size()); }

    std::array<char, std::size_t{64} << 10U> piece_;
    bool is_read_ = true;
  };
  Buffer buffer_;
};

}  // namespace combu

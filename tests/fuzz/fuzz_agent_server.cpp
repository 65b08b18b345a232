// Reads bytes as the frames that a client sends to an agent, and decodes each payload as the message of its
// type. The reader and the decoders must end, with a message or a refusal. A message that is encoded again
// must give the same payload.

#include "agent_messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace combu::agent;
  combu::fuzz::read_frames<Hello, Start, Put, Stop, Forget, ReadLog, Collect, Cancel, More, GetUsage, Call,
                           Ping>({reinterpret_cast<const char*>(data), size});
  return 0;
}

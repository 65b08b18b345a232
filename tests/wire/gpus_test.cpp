// The GPUs that the Docker room reads from an `nvidia-smi` in PATH.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/docker.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::wire {
namespace {

// An engine that reports no GPU, and a PATH that begins with a folder for an `nvidia-smi`.
class NvidiaSmi : public testing::Test {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): there is one thread between two tests
  NvidiaSmi() {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
    if (const char* path = std::getenv("PATH")) path_ = path;
    ::setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
    daemon_ = std::make_unique<ScriptedDaemon>([](const Asked& asked) {
      if (asked.target == "/_ping") return whole(200, "OK", "Api-Version: 1.41\r\n");
      return whole(200, R"({"NCPU": 1, "MemTotal": 1})");
    });
    engine_ = open_docker({parse_address(daemon_->address()), "the test", "/nonexistent"}, {Seconds{20}});
  }
  ~NvidiaSmi() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  // NOLINTEND(concurrency-mt-unsafe)
  NvidiaSmi(const NvidiaSmi&) = delete;
  NvidiaSmi& operator=(const NvidiaSmi&) = delete;

  void write(const std::string& script) const {
    const std::string program = folder_ + "/nvidia-smi";
    std::ofstream(program) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] Engine& engine() const { return *engine_; }

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "combu-gpus-XXXXXX";
  std::string path_;
  std::unique_ptr<ScriptedDaemon> daemon_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(NvidiaSmi, ListsGpusWithUuidKindAndMemory) {
  write(R"(test "$*" = "--query-gpu=index,uuid,memory.total,name --format=csv,noheader,nounits" || exit 1
echo "no device" >&2
echo "0, GPU-5d1f, 81559, NVIDIA H100 80GB HBM3"
echo "1, GPU-6e2a, [N/A], NVIDIA GB10"
echo "2, GPU-7f3b, 24564, NVIDIA GeForce RTX 4090")");
  const std::vector<Gpu> gpus = engine().gpus({});
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].id, "0");
  EXPECT_EQ(gpus[0].uuid, "GPU-5d1f");
  EXPECT_EQ(gpus[0].kind, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpus[0].memory, Bytes{std::int64_t{81559} << 20U});
  EXPECT_EQ(gpus[1].id, "2");
}

TEST_F(NvidiaSmi, IsKilledIfItPrintsEndlessly) {
  write("exec yes");
  EXPECT_TRUE(engine().gpus({}).empty());
}

TEST_F(NvidiaSmi, IsKilledWhenTheCallerStops) {
  const std::string fifo = folder() + "/begun";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  write("echo >" + fifo + "; exec sleep 1000");
  std::stop_source stop;
  auto asked = std::async(std::launch::async, [&] { return engine().gpus(stop.get_token()); });
  std::ifstream(fifo).get();  // waits until the program runs
  stop.request_stop();
  try {
    (void)asked.get();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
}

}  // namespace
}  // namespace combu::wire

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "agent.hpp"
#include "combu/inputs.hpp"
#include "combu/simulated.hpp"

namespace combu {

namespace {

constexpr Bytes k_input_kept_max{std::int64_t{1}
                                 << 20U};  // the engine stores at most 1 MiB of each input file

#if defined(__aarch64__)
constexpr std::string_view k_platform = "linux/arm64";
#else
constexpr std::string_view k_platform = "linux/amd64";
#endif

Error cancelled() {
  return {ErrorKind::cancelled, "simulated", "cancelled"};
}

// An image has no content in the simulation, so its digest is made from its name.
std::string digest_of(const std::string& image) {
  return "simulated:" + image;
}

// The program of every image is a command that the simulation does not know.
ImageProgram program_of_images() {
  return {.entrypoint = {}, .cmd = {"program"}, .stop_signal = {}, .platform = std::string(k_platform)};
}

class SimulatedEngine : public Engine {
 public:
  SimulatedEngine(std::unique_ptr<World> owned, World& world, double speed)
      : owned_(std::move(owned)), world_(world), speed_(speed), began_(real_clock().now()) {}

  Facts facts(std::stop_token stop) override {
    if (stop.stop_requested()) throw cancelled();
    Facts facts{.engine = "simulated engine", .address = "simulated:", .is_simulated = true};
    facts.places_attempts = world_.options().places;
    facts.can_exec = !facts.places_attempts;
    if (facts.places_attempts) {
      facts.began_at = Instant{};
      facts.pending_max = k_simulated_pending_max;
    } else {
      facts.capacity = k_simulated_capacity;
    }
    return facts;
  }

  std::vector<Gpu> gpus(std::stop_token stop) override {
    if (stop.stop_requested()) throw cancelled();
    return world_.gpus();
  }

  std::vector<Error> check(const Run& run, std::stop_token stop) override {
    return call(stop, [&](Instant now) { return world_.check(run, now); });
  }

  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override {
    std::vector<Error> errors = call(stop, [&](Instant now) { return world_.prepare(run, now); });
    std::set<std::pair<std::string, std::string>> pending;
    for (const Trial& trial : run.experiment.trials) {
      if (!pending.emplace(trial.image, trial.platform).second) continue;
      on_progress({.kind = Preparation::Kind::found,
                   .name = trial.image,
                   .platform = trial.platform,
                   .digest = digest_of(trial.image),
                   .program = program_of_images()});
    }
    return errors;
  }

  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    Seconds latency{0};
    if (speed_ > 0) {
      latency = call(stop, [&](Instant) { return world_.draw_latency(); }) / speed_;
      real_clock().wait(latency, stop);
    }
    World::StagedInputs inputs;
    for (const Input& input : trial.inputs) {
      inputs.files.merge(read_input(input, k_input_kept_max, stop));
      inputs.digests.push_back(content_digest(input, stop));
    }
    StartResult result =
        call(stop, [&](Instant now) { return world_.start(run, trial, attempt, now, std::move(inputs)); });
    if (auto* running = std::get_if<Running>(&result)) {
      running->observation.start_took = StartDuration{.created = Seconds(0), .started = latency};
      if (trial.cache.on) running->observation.digest = digest_of(trial.image);
    }
    return result;
  }

  void stop(const Key& key, std::optional<Seconds> /*grace*/, std::stop_token stop) override {
    call(stop, [&](Instant now) { return world_.stop(key, now); });
  }

  std::vector<Observation> list(const Selector& selector, ListDetail /*look*/,
                                std::stop_token stop) override {
    return call(stop, [&](Instant now) { return world_.list(selector, now); });
  }

  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    std::vector<Observation> pending;
    bool broken = false;
    std::unique_lock lock(mutex_);
    const World::WatchId id = world_.watch(
        selector, [&pending](Observation observation) { pending.push_back(std::move(observation)); },
        [&broken] { broken = true; }, now());
    lock.unlock();
    try {
      on_change(Watching{});
      lock.lock();
      while (!stop.stop_requested() && !broken) {
        world_.advance(now());
        const std::vector<Observation> changes = std::exchange(pending, {});
        if (changes.empty()) {
          await_change(lock, stop);
          continue;
        }
        lock.unlock();
        for (const Observation& change : changes) on_change(change);
        lock.lock();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      world_.unwatch(id);
      throw;
    }
    world_.unwatch(id);
    if (broken && !stop.stop_requested()) {
      throw Error(ErrorKind::unavailable, "simulated", "the stream of changes was cut");
    }
  }

  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override {
    return call(stop, [&](Instant now) { return world_.usage(id, now); });
  }

  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    if (stop.stop_requested()) throw cancelled();
    World::Log log = world_.log(key, now());
    const bool wanted = !options.since || *options.since <= log.written;
    std::size_t first = wanted ? 0 : log.lines.size();
    if (wanted && options.tail)
      first = log.lines.size() - std::min<std::size_t>(*options.tail, log.lines.size());
    for (; first < log.lines.size(); ++first)
      on_piece({.stream = log.lines[first].stream, .text = log.lines[first].text, .at = log.written});
    while (options.follow && !log.complete) {
      if (stop.stop_requested()) throw cancelled();
      await_change(lock, stop);
      log = world_.log(key, now());
    }
  }

  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    const std::map<std::string, std::string> files =
        call(stop, [&](Instant now) { return world_.files(key, path, now); });
    if (files.empty()) return false;
    on_bytes(tar_of(files));
    return true;
  }

  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    std::shared_ptr<AgentConnection> connection =
        call(stop, [&](Instant now) { return world_.exec(key, argv, now); });
    return std::make_unique<Stream>(*this, key, std::move(connection));
  }

  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override {
    std::set<Key> kept;
    if (callbacks.found) kept = callbacks.found(list(selector, ListDetail::basic, stop));
    Released released = call(stop, [&](Instant now) { return world_.release(selector, kept, now); });
    if (callbacks.removed && released.attempts > 0) callbacks.removed(released.attempts, released.attempts);
    return released;
  }

 private:
  // A connection to the agent of a worker.
  class Stream final : public ByteStream {
   public:
    Stream(SimulatedEngine& engine, Key key, std::shared_ptr<AgentConnection> connection)
        : engine_(engine), key_(std::move(key)), connection_(std::move(connection)) {}
    ~Stream() override { close(); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    std::size_t read(std::span<char> buffer) override {
      std::unique_lock lock(engine_.mutex_);
      const std::stop_token stop = closed_.get_token();
      while (true) {
        engine_.world_.advance(engine_.now());
        if (stop.stop_requested()) return 0;
        if (!connection_->unread.empty()) break;
        if (connection_->is_cut) throw Error(ErrorKind::unavailable, key_.trial, "the connection was cut");
        if (connection_->is_over) return 0;
        engine_.await_change(lock, stop);
      }
      const std::size_t count = std::min(buffer.size(), connection_->unread.size());
      std::copy_n(connection_->unread.begin(), count, buffer.begin());
      connection_->unread.erase(0, count);
      return count;
    }
    void write(std::string_view bytes) override {
      engine_.call({}, [&](Instant now) { engine_.world_.write(*connection_, key_, bytes, now); });
    }
    void close() override {
      closed_.request_stop();
      engine_.call({}, [&](Instant now) { engine_.world_.close(*connection_, key_, now); });
    }
    std::string errors() override { return ""; }

   private:
    SimulatedEngine& engine_;
    const Key key_;
    const std::shared_ptr<AgentConnection> connection_;
    std::stop_source closed_;
  };

  template <class Verb>
  std::invoke_result_t<Verb, Instant> call(const std::stop_token& stop, const Verb& verb) {
    if (stop.stop_requested()) throw cancelled();
    // Wakes the waiting threads after the lock is released.
    const auto wake =
        std::unique_ptr<void, std::function<void(void*)>>(this, [this](void*) { changed_.notify_all(); });
    const std::scoped_lock lock(mutex_);
    return verb(now());
  }

  // Returns the simulated time. If speed_ is 0, the time jumps to the next event.
  [[nodiscard]] Instant now() {
    if (speed_ > 0) {
      const Seconds elapsed = (real_clock().now() - began_) * speed_;
      return began_ + std::chrono::duration_cast<Instant::duration>(elapsed);
    }
    jumped_ = std::max(jumped_, world_.next_due().value_or(jumped_));
    return jumped_;
  }

  // Waits until another function of the engine is called, or the next event is due.
  void await_change(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    const std::optional<Instant> due = world_.next_due();
    if (due && speed_ == 0) return;
    // A wait with a stop token requires a predicate. Any wake-up ends the wait, and the caller checks the
    // state of the world again.
    bool woken = false;
    const auto once = [&woken] { return std::exchange(woken, true); };
    if (due) {
      changed_.wait_for(lock, stop, std::max(Seconds(0), Seconds(*due - now())) / speed_, once);
    } else {
      changed_.wait(lock, stop, once);
    }
  }

  std::unique_ptr<World> owned_;
  World& world_;
  double speed_;
  Instant began_;
  Instant jumped_{};
  std::mutex mutex_;
  std::condition_variable_any changed_;
};

}  // namespace

std::unique_ptr<Engine> open_simulated(const SimulationOptions& options) {
  auto world = std::make_unique<World>(options);
  World& model = *world;
  return std::make_unique<SimulatedEngine>(std::move(world), model, options.speed);
}

std::unique_ptr<Engine> open_simulated(World& world, double speed) {
  return std::make_unique<SimulatedEngine>(nullptr, world, speed);
}

}  // namespace combu

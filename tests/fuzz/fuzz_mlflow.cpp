// Answers one request of an export with the input, as a JSON answer of an MLflow server. The export must end
// or throw Error.

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/export.hpp"
#include "combu/telemetry.hpp"
#include "fuzz/answering_server.hpp"

namespace {

constexpr std::string_view k_kept =
    R"({"runs":[{"info":{"run_id":"r","status":"RUNNING"},"data":{"metrics":[{"key":"loss"}],)"
    R"("tags":[{"key":"combu.trial","value":"a"},{"key":"combu.attempt","value":"1"}]}}]})";
// Valid answers of a server, by the request's path.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> k_right{
    {{"/experiments/get-by-name", R"({"experiment":{"experiment_id":"1"}})"},
     {"/experiments/create", R"({"experiment_id":"1"})"},
     {"/runs/search", k_kept},
     {"/runs/create", R"({"run":{"info":{"run_id":"r"}}})"},
     {"/metrics/get-history", R"({"metrics":[{"timestamp":1,"step":"0","value":1.5}]})"},
     {"/runs/log-batch", "{}"},
     {"/runs/update", "{}"}}};

std::size_t fuzzed = 0;  // the call whose answer is `input`
int status = 200;        // the status of that answer
std::string_view input;

std::string answer(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  for (std::size_t i = 0; i < k_right.size(); ++i) {
    if (line.find(k_right[i].first) == std::string_view::npos) continue;
    if (i == fuzzed) return combu::fuzz::answer_of(status, input);
    // If the fuzzed call creates an experiment or a run, the lookup must find none.
    if (i == 0 && fuzzed == 1) return combu::fuzz::answer_of(404, "{}");
    if (i == 2 && fuzzed == 3) return combu::fuzz::answer_of(200, "{}");
    return combu::fuzz::answer_of(200, k_right[i].second);
  }
  return combu::fuzz::answer_of(404, "{}");
}

combu::Results results_of(std::shared_ptr<combu::Telemetry> telemetry) {
  combu::Results results;
  results.run.id = combu::RunId("run");
  results.run.experiment = "exp";
  results.params = {"lr"};
  results.metrics = {"loss"};
  results.rows.resize(1);
  results.rows[0].trial.name = "a";
  results.rows[0].trial.params = R"({"lr":0.5})";
  results.rows[0].params.resize(1);
  results.rows[0].metrics = {{.points = 1}};
  results.telemetry = std::move(telemetry);
  return results;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const server = new combu::fuzz::AnsweringServer(&answer);
  static const combu::Results results = [] {
    static std::string folder = "/tmp/combu-fuzz.XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    std::atexit([] { std::filesystem::remove_all(folder); });
    return results_of(std::make_shared<combu::Telemetry>(folder, combu::RunId("run")));
  }();
  if (size == 0) return 0;
  fuzzed = data[0] % k_right.size();
  status = data[0] >= 128 ? 400 : 200;
  input = std::string_view(reinterpret_cast<const char*>(data), size).substr(1);
  combu::MlflowForm form;
  form.uri = server->address("http");
  try {
    export_to_mlflow(results, form, {});
  } catch (const combu::Error&) {
  }
  return 0;
}

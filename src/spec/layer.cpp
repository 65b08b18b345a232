#include "spec/layer.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "spec/cache.hpp"
#include "spec/failure.hpp"
#include "spec/foreign_fields.hpp"
#include "spec/healthcheck.hpp"
#include "spec/inputs.hpp"
#include "spec/kubernetes.hpp"
#include "spec/names.hpp"
#include "spec/order.hpp"
#include "spec/outputs.hpp"
#include "spec/ports.hpp"
#include "spec/secrets.hpp"
#include "spec/slots.hpp"
#include "spec/telemetry.hpp"
#include "spec/values.hpp"
#include "spec/volumes.hpp"
#include "spec/warnings.hpp"
#include "spec/worker.hpp"

namespace combu::spec {

namespace {

std::size_t bit(Field field) {
  return static_cast<std::size_t>(field);
}

}  // namespace

Layer LayerReader::read(Json& object, const Place& place) {
  std::array<std::string_view, k_field_count> spelled;
  for (const auto& element : object.items()) {
    const std::string& spelling = element.key();
    Json& value = element.value();
    if (own_field(spelling)) continue;
    const Place here = place.key(spelling);
    const auto field = find_field(spelling);
    if (!field) {
      read_unknown(spelling, value, here);
      continue;
    }
    std::string_view& before = spelled.at(bit(*field));
    if (!before.empty()) {
      report_.add(here, before == spelling
                            ? fmt::format("`{}` is given twice", spelling)
                            : fmt::format("`{}` and `{}` mean the same field; keep one", before, spelling));
      continue;
    }
    before = spelling;
    layer_.given.set(bit(*field));
    // Jsonnet's `if` without `else` returns null. So a field with the value null counts as absent, even if
    // the defaults have the field.
    if (value.is_null()) {
      layer_.cleared.set(bit(*field));
    } else {
      read_field(*field, value, here);
    }
  }
  if (deploy_ != nullptr) lay_deploy(place.key(field_name(Field::deploy)));
  return std::move(layer_);
}

void LayerReader::read_unknown(const std::string& spelling, const Json& value, const Place& place) {
  if (planned_field(spelling)) {
    report_.add(place, fmt::format("`{}` is not supported yet", spelling));
    // In Compose, `build` replaces `image`. Count `image` as given, so that no second error reports a missing
    // image.
    if (spelling == "build") layer_.given.set(bit(Field::image));
    return;
  }
  if (top_field(spelling)) {
    report_.add(place, fmt::format("`{}` belongs at the top level of the file, not in a trial", spelling));
    return;
  }
  if (const std::string instead = written_instead(spelling); !instead.empty()) {
    report_.add(place, fmt::format("{}; {}", unknown_field(spelling, std::nullopt), instead));
    return;
  }
  const auto meant = meant_field(spelling);
  report_.add(place, unknown_field(spelling, meant));
  const auto field = meant ? find_field(*meant) : std::nullopt;
  if (!field) return;
  // Count a misspelt field as given, so that no second error reports a missing field. Keep the value of a
  // misspelt `name`, because other trials may depend on this trial.
  layer_.given.set(bit(*field));
  if (field == Field::name && value.is_string() && layer_.trial.name.empty()) layer_.trial.name = value;
}

void LayerReader::read_field(Field field, Json& value, const Place& place) {
  Trial& trial = layer_.trial;
  switch (field) {
    case Field::name:
      return read_name(value, place);
    case Field::image:
      return read_checked(value, fault_of_image, place, trial.image);
    case Field::ports:
      trial.container.ports = read_ports(value, place, report_);
      return;
    case Field::volumes:
      trial.container.volumes = read_volumes(value, caller_, place, report_);
      return;
    case Field::networks:
      trial.container.networks = read_networks(value, place, report_);
      return;
    case Field::depends:
      trial.depends = read_depends(value, place, report_);
      return;
    case Field::cmd:
      trial.process.cmd = read_words(value, place, report_);
      if (trial.process.cmd && value.is_string())
        layer_.shell_syntax = find_shell_syntax(value.get_ref<const std::string&>());
      return;
    case Field::entrypoint:
      trial.process.entrypoint = read_words(value, place, report_);
      return;
    case Field::env:
      layer_.env = read_env(value, caller_, place, report_);
      return;
    case Field::env_file:
      return read_env_files(value, place);
    case Field::workdir:
      return read_workdir(value, place);
    case Field::user:
      return read_user(value, place);
    case Field::service:
      trial.service = read_flag(value, place, report_).value_or(false);
      return;
    case Field::init:
      trial.process.init = read_flag(value, place, report_).value_or(true);
      return;
    case Field::labels:
      layer_.labels = read_labels(value, place, report_);
      return;
    case Field::params:
      return read_object(value, place, layer_.params);
    case Field::params_file:
      trial.params_file = read_flag(value, place, report_).value_or(false);
      return;
    case Field::pull:
      return read_pull(value, place);
    case Field::platform:
      return read_checked(value, fault_of_platform, place, trial.platform);
    case Field::healthcheck:
      trial.healthcheck = read_healthcheck(value, place, report_);
      return;
    case Field::stop_signal:
      return read_checked(value.is_number() ? Json(json_text(value)) : value, fault_of_signal, place,
                          trial.process.stop_signal);
    case Field::stop_grace:
      trial.process.stop_grace = read_duration(value, place, report_);
      return;
    case Field::cpus:
      trial.slots.cpus = read_cpus(value, place, report_).value_or(Cpus{});
      return;
    case Field::memory:
      trial.slots.memory = read_memory(value, place, report_).value_or(Bytes{});
      return;
    case Field::shm_size:
      trial.container.shm_size = read_bytes(value, place, report_).value_or(Bytes{});
      return;
    case Field::gpus:
      trial.gpus = read_gpus(value, place, report_);
      return;
    case Field::priority:
      trial.priority = read_integer(value, place, report_).value_or(0);
      return;
    case Field::retries:
      trial.retries = read_retries(value, place, report_);
      return;
    case Field::timeout:
      trial.timeout = read_limit(value, place, report_);
      return;
    case Field::start_deadline:
      trial.start_deadline = read_limit(value, place, report_);
      return;
    case Field::metrics:
      trial.metrics = read_metrics(value, place, report_);
      return;
    case Field::logs:
      trial.log_size_max = read_log_size(value, place, report_);
      return;
    case Field::outputs:
      trial.outputs = read_outputs(value, place, report_);
      return;
    case Field::cache:
      trial.cache = read_cache(value, place, report_);
      return;
    case Field::inputs:
      trial.inputs = read_inputs(value, caller_, place, report_);
      return;
    case Field::secrets:
      trial.container.secrets = read_secrets(value, place, report_);
      return;
    case Field::deploy:
      deploy_ = &value;
      return;
    case Field::docker:
      return read_object(value, place, layer_.docker);
    case Field::kubernetes:
      layer_.kubernetes = read_kubernetes(value, place, report_);
      return;
    case Field::worker:
      trial.worker = read_worker(value, place, report_);
      return;
  }
}

void LayerReader::read_name(const Json& value, const Place& place) {
  if (kind_ == LayerKind::defaults) {
    report_.add(place, "`name` belongs to each trial, not to `defaults`");
    return;
  }
  auto name = read_string(value, place, report_);
  if (!name) return;
  if (const auto fault = fault_of_trial_name(*name)) report_.add(place, *fault);
  // Keep the invalid name, which is reported once: trials that depend on it need no error of their own.
  layer_.trial.name = std::move(*name);
}

void LayerReader::read_checked(const Json& value, std::optional<std::string> (*fault_of)(std::string_view),
                               const Place& place, std::string& target) {
  auto text = read_string(value, place, report_);
  if (!text) return;
  if (const auto fault = fault_of(*text)) {
    report_.add(place, *fault);
  } else {
    target = std::move(*text);
  }
}

void LayerReader::read_env_files(const Json& value, const Place& place) {
  read_list(value, "files' paths", place, report_, [&](const Json& element, const Place& here) {
    const auto path = read_string(element, here, report_);
    if (!path) return;
    if (path->empty()) {
      report_.add(here, "the file's path is empty");
      return;
    }
    const EnvFile& file = env_files_.read(absolute_path(*path, caller_), caller_, here, report_);
    layer_.env_files.push_back(&file.pairs);
    if (layer_.trial.env_fault.empty()) layer_.trial.env_fault = file.fault;
  });
}

void LayerReader::read_workdir(const Json& value, const Place& place) {
  auto path = read_string(value, place, report_);
  if (!path) return;
  if (!path->starts_with('/')) {
    report_.add(place,
                fmt::format("the folder in the container, \"{}\", must begin with `/`", shortened(*path)));
  } else {
    layer_.trial.process.workdir = std::move(*path);
  }
}

void LayerReader::read_user(const Json& value, const Place& place) {
  if (value == "caller") {
    layer_.trial.process.user = fmt::format("{}:{}", caller_.uid, caller_.gid);
  } else if (value.is_number_unsigned() || value.is_number_integer()) {
    if (const auto uid = read_count(value, place, report_)) layer_.trial.process.user = std::to_string(*uid);
  } else {
    read_checked(value, fault_of_user, place, layer_.trial.process.user);
  }
}

// Reads Compose's long form of `cpus`, `memory` and `gpus`.
void LayerReader::lay_deploy(const Place& place) {
  const Deploy deploy = read_deploy(*deploy_, place, report_);
  const auto take = [&](Field field, const auto& from, auto& to) {
    if (!from) return;
    if (layer_.given.test(bit(field))) {
      report_.add(place, fmt::format("`{}` is given twice, here and as a field of the trial; keep one",
                                     field_name(field)));
    }
    layer_.given.set(bit(field));
    to = *from;
  };
  take(Field::cpus, deploy.cpus, layer_.trial.slots.cpus);
  take(Field::memory, deploy.memory, layer_.trial.slots.memory);
  take(Field::gpus, deploy.gpus, layer_.trial.gpus);
}

void LayerReader::read_pull(const Json& value, const Place& place) {
  if (value == "if_not_present") return;  // Compose's word for "missing"
  const auto choice = read_choice(value, {"missing", "always", "never"}, place, report_);
  if (choice) layer_.trial.pull = static_cast<Pull>(*choice);
}

void LayerReader::read_object(Json& value, const Place& place, Json& target) {
  if (!value.is_object()) {
    report_.add(place, fmt::format("must be an object, not {}", shown(value)));
    return;
  }
  target = std::move(value);
}

namespace {

void drop_replaced(Layer& own, const Layer& defaults) {
  Trial& to = own.trial;
  const Trial& from = defaults.trial;
  const auto wanted = [&](Field field) {
    return !own.given.test(bit(field)) && defaults.given.test(bit(field));
  };
  if (wanted(Field::image)) to.image = from.image;
  if (wanted(Field::ports)) to.container.ports = from.container.ports;
  if (wanted(Field::volumes)) to.container.volumes = from.container.volumes;
  if (wanted(Field::networks)) to.container.networks = from.container.networks;
  if (wanted(Field::depends)) to.depends = from.depends;
  if (wanted(Field::cmd)) {
    to.process.cmd = from.process.cmd;
    own.shell_syntax = defaults.shell_syntax;
  }
  if (wanted(Field::entrypoint)) to.process.entrypoint = from.process.entrypoint;
  if (wanted(Field::env_file)) {
    own.env_files = defaults.env_files;
    to.env_fault = from.env_fault;
  }
  if (wanted(Field::workdir)) to.process.workdir = from.process.workdir;
  if (wanted(Field::user)) to.process.user = from.process.user;
  if (wanted(Field::init)) to.process.init = from.process.init;
  if (wanted(Field::service)) to.service = from.service;
  if (wanted(Field::params_file)) to.params_file = from.params_file;
  if (wanted(Field::pull)) to.pull = from.pull;
  if (wanted(Field::platform)) to.platform = from.platform;
  if (wanted(Field::healthcheck)) to.healthcheck = from.healthcheck;
  if (wanted(Field::cpus)) to.slots.cpus = from.slots.cpus;
  if (wanted(Field::memory)) to.slots.memory = from.slots.memory;
  if (wanted(Field::shm_size)) to.container.shm_size = from.container.shm_size;
  if (wanted(Field::gpus)) to.gpus = from.gpus;
  if (wanted(Field::priority)) to.priority = from.priority;
  if (wanted(Field::retries)) to.retries = from.retries;
  if (wanted(Field::timeout)) to.timeout = from.timeout;
  if (wanted(Field::start_deadline)) to.start_deadline = from.start_deadline;
  if (wanted(Field::outputs)) to.outputs = from.outputs;
  if (wanted(Field::metrics)) to.metrics = from.metrics;
  if (wanted(Field::logs)) to.log_size_max = from.log_size_max;
  if (wanted(Field::cache)) to.cache = from.cache;
  if (wanted(Field::inputs)) to.inputs = from.inputs;
  if (wanted(Field::secrets)) to.container.secrets = from.container.secrets;
  if (wanted(Field::worker)) to.worker = from.worker;
  if (wanted(Field::stop_signal)) to.process.stop_signal = from.process.stop_signal;
  if (wanted(Field::stop_grace)) to.process.stop_grace = from.process.stop_grace;
}

PairMap laid(PairMap base, const PairMap& over) {
  base.put_all(over.pairs());
  return base;
}

Json laid(Json base, Json&& over) {
  for (auto& element : over.items()) base[element.key()] = std::move(element.value());
  return base;
}

Json laid_deep(Json base, const Json& over) {
  merge_deep(base, over);
  return base;
}

}  // namespace

Trial combine(Layer&& own, const Layer& defaults, const Place& place, Report& report) {
  drop_replaced(own, defaults);
  if (!defaults.params.empty() && !own.cleared.test(bit(Field::params))) {
    own.params = laid(defaults.params, std::move(own.params));
  }
  if (!defaults.docker.empty() && !own.cleared.test(bit(Field::docker)))
    own.docker = laid_deep(defaults.docker, own.docker);
  if (!defaults.kubernetes.empty() && !own.cleared.test(bit(Field::kubernetes)))
    own.kubernetes = laid_deep(defaults.kubernetes, own.kubernetes);
  drop_null_members(own.kubernetes);
  if (own.trial.service && std::exchange(own.trial.cache, {}).on && own.given.test(bit(Field::cache)))
    report.add(place.key(field_name(Field::cache)),
               "a service has no result to cache; remove `cache` or `service`");
  check_params(own.params, defaults.params, place.key(field_name(Field::params)), report);

  PairMap env;
  for (const Pairs* file : own.env_files) env.put_all(*file);
  if (!own.cleared.test(bit(Field::env))) env.put_all(defaults.env.pairs());
  env.put_all(own.env.pairs());
  put_params(own.params, env);
  const bool labels = !own.cleared.test(bit(Field::labels));
  Trial trial = std::move(own.trial);
  if (trial.retries.grow_memory > 1 && trial.slots.memory.count == 0)
    report.add(place.key(field_name(Field::retries)).key("grow"),
               "needs the trial's `memory`, which is missing");
  add_depends(trial);
  trial.process.env = env.take();
  trial.process.env.shrink_to_fit();  // saves memory: an experiment may have 100,000 trials
  trial.container.labels = (labels ? laid(defaults.labels, own.labels) : std::move(own.labels)).take();
  if (!own.params.empty()) trial.params = json_text(own.params);
  if (!own.docker.empty()) trial.container.docker = json_text(own.docker);
  if (!own.kubernetes.empty()) trial.container.kubernetes = json_text(own.kubernetes);
  check_worker(trial, place, report);
  warn_of_trial(trial, own.shell_syntax, report);
  return trial;
}

}  // namespace combu::spec

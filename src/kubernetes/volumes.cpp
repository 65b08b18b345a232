#include "kubernetes/volumes.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/merge.hpp"
#include "kubernetes/trial_fields.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* k_shm = "/dev/shm";

json source_of(const Volume& volume) {
  if (!volume.source_is_path) return {{"persistentVolumeClaim", {{"claimName", volume.source}}}};
  json path = {{"path", volume.source}};
  if (volume.folder_meant) path["type"] = "Directory";
  return {{"hostPath", std::move(path)}};
}

// Collects volumes and their mounts. Mounts of the same source share a volume: kubelets of some versions
// never start a Pod that has two volumes of one claim.
class Mounts {
 public:
  void add(const Volume& volume) {
    const std::string& name = name_of(volume);
    json mount = {{"name", name}, {"mountPath", volume.target}};
    if (volume.read_only) mount["readOnly"] = true;
    mounts_.push_back(std::move(mount));
  }

  void add_shm(Bytes size) {
    volumes_.push_back(
        {{"name", "combu-shm"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", memory_quantity(size)}}}});
    mounts_.push_back({{"name", "combu-shm"}, {"mountPath", k_shm}});
  }

  void move_to(json& spec) && {
    if (mounts_.empty()) return;
    spec["volumes"] = std::move(volumes_);
    spec["containers"][0]["volumeMounts"] = std::move(mounts_);
  }

 private:
  const std::string& name_of(const Volume& volume) {
    json source = source_of(volume);
    std::string& name = names_[source];
    if (!name.empty()) return name;
    name = fmt::format("combu-volume-{}", names_.size());
    source["name"] = name;
    volumes_.push_back(std::move(source));
    return name;
  }

  std::map<json, std::string> names_;  // the names of volumes by their sources
  json volumes_ = json::array();
  json mounts_ = json::array();
};

}  // namespace

void add_volumes(json& spec, const Trial& trial, const json& section) {
  Mounts mounts;
  bool has_shm = trial.container.shm_size.count == 0 || mounts_at(section, k_shm);
  for (const Volume& volume : trial.container.volumes) {
    has_shm = has_shm || volume.target == k_shm;
    if (!mounts_at(section, volume.target)) mounts.add(volume);
  }
  if (!has_shm) mounts.add_shm(trial.container.shm_size);
  std::move(mounts).move_to(spec);
}

}  // namespace combu::kubernetes

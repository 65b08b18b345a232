#include "app/doctor.hpp"

#include <algorithm>
#include <string>

#include "combu/record.hpp"
#include "combu/system.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

void examine_state_folder(const Invocation& invocation, std::vector<Finding>& findings) {
  const std::string folder = state_folder(caller_for(invocation));
  try {
    make_state_folder(folder);
    if (Record::exists(folder)) (void)Record(folder, Record::Use::reading).runs({}, 1);
  } catch (const Error& error) {
    findings.push_back(fault_of("state", error));
    findings.back().is_unreachable = false;  // the error is not one of the engine
    return;
  }
  if (const auto space = disk_space(folder))
    findings.push_back(disk_finding(folder, space->free, space->total,
                                    "remove files, or name a folder on another disk with COMBU_HOME"));
}

}  // namespace

std::vector<Finding> examine(Session& session, const Invocation& invocation) {
  std::vector<Finding> findings = session.engine().diagnose(session.stop());
  examine_state_folder(invocation, findings);
  return findings;
}

Result result_of(const std::vector<Finding>& findings) {
  Result worst = Result::succeeded;
  for (const Finding& finding : findings)
    if (finding.kind == Finding::Kind::fault)
      worst = std::max(worst, finding.is_unreachable ? Result::no_engine : Result::failed);
  return worst;
}

}  // namespace combu

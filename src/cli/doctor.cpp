#include "app/doctor.hpp"

#include <memory>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/view.hpp"

namespace combu {

void add_doctor(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("doctor", "Check the engine and this machine, and print what to correct");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print one JSON object per line");
  command.footer("Example:\n  combu doctor");
  command.callback([&invocation, &action, json] {
    action = [&invocation, json] {
      return in_session(invocation, [&](Session& session) {
        const std::vector<Finding> findings = examine(session, invocation);
        std::ostringstream text;
        (*json ? print_findings_json : print_findings)(text, findings);
        (void)put_out(text.str());
        return result_of(findings);
      });
    };
  });
}

}  // namespace combu

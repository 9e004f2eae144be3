#include "cli/run/role_options.h"

#include <CLI/CLI.hpp>

#include "cli/support/command.h"
#include "cli/support/selector.h"
#include "client/src/base/parse_ranks.h"

namespace meshbus::cli {
namespace {

constexpr const char* kRoleGroup = "Several programs";

Result<void> parse_after(const std::string& text, std::vector<std::string>& after) {
  std::string_view rest(text);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto name = rest.substr(0, comma);
    if (name.empty())
      return fail(ErrorCode::parse_error,
                  "takes names of roles like store or prepare:done, not '" + text + "'");
    after.emplace_back(name);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return {};
}

void add_place_in_job(CLI::App& verb, RoleArguments& role) {
  add_text(
      verb, "--on",
      [&role](const std::string& text) -> Result<void> {
        auto parsed = parse_ranks(text);
        if (!parsed)
          return fail(ErrorCode::parse_error,
                      "takes numbers of hosts like 0-2,5, not '" + text + "'");
        role.on = std::move(*parsed);
        return {};
      },
      "Only on these of the hosts, by number from 0, like 0-2,5; default: on all", "HOSTS")
      ->group(kRoleGroup);
  add_text(
      verb, "--after", [&role](const std::string& text) { return parse_after(text, role.after); },
      "Start this program when these are ready; NAME:done = when all its ranks have ended with "
      "success",
      "NAME[:done],...")
      ->group(kRoleGroup);
  verb.add_option("--ready-text", role.ready_text,
                  "A rank is ready when it has written a line with this text; default: when it has "
                  "started, or with --mesh said hello")
      ->type_name("TEXT")
      ->group(kRoleGroup);
  verb.add_flag(
          "--ends-job", role.ends_job,
          "The job is over when this program has ended: the others are stopped then; default: "
          "when all have ended")
      ->group(kRoleGroup);
}

}  // namespace

void add_role_options(CLI::App& verb, RoleArguments& role) {
  add_rank_options(verb, role.ranks);
  verb.add_flag(
          "--mpi{auto}", role.mpi,
          "The ranks are one MPI job, unmodified: auto (default; by what the program is linked "
          "with), pmi1 (MPICH and its kin), pmix (Open MPI); none = they are not, although the "
          "program is linked with MPI")
      ->check(CLI::IsMember({"auto", "pmi1", "pmix", "none"}));
  verb.add_flag("--torch", role.torch,
                "The ranks are a PyTorch job: they find what torchrun sets (see meshbus torchrun)");
  verb.add_flag("--keep-going", role.keep_going, "Let the other ranks go on when one fails");
  add_restart(verb, role.restart);
  add_place_in_job(verb, role);
}

void add_role_name(CLI::App& verb, RoleArguments& role) {
  verb.add_option_function<std::string>(
          "--name",
          [&role](const std::string& name) {
            if (name.empty()) throw CLI::ValidationError("--name is empty");
            role.name = name;
          },
          "Name of the mesh; default: that of the program")
      ->type_name("TEXT");
}

}  // namespace meshbus::cli

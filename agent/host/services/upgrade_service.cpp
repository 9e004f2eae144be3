#include "agent/host/services/upgrade_service.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "agent/host/services/program_release.h"
#include "common/wire/control.h"
#include "wire/control_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

constexpr char kBrokerProgram[] = "meshbus-broker";
constexpr char kAgentProgram[] = "meshbus-agent";
/// A program that says its release does nothing else.
constexpr auto kReleaseLimit = 10s;
/// The order to the warden must fit into one packet of a lifeline.
constexpr std::size_t kLongestFolder = 512;
constexpr std::size_t kLongestRequester = 256;

bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c < ' ' || c == 127; });
}

/// Where the programs of this agent's build are, or were.
std::string own_folder() {
  std::array<char, PATH_MAX> path{};
  const auto n = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string own(path.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
  return own.substr(0, own.find_last_of('/'));
}

}  // namespace

void UpgradeService::add_rows(Dispatcher& handlers,
                              const std::unique_ptr<UpgradeService>& service) {
  handlers.on<wire::UpgradeHost>(Role::operate, row(service, &UpgradeService::on_upgrade_host));
}

Result<std::string> UpgradeService::find_folder(const flatbuffers::String* text) {
  const std::string said = text == nullptr ? own_folder() : text->str();
  if (!said.starts_with('/') || !is_printable(said))
    return fail(
        ErrorCode::out_of_range,
        "programs: an absolute path without control characters, not '" + short_text(text) + "'");
  std::array<char, PATH_MAX> resolved{};
  if (::realpath(said.c_str(), resolved.data()) == nullptr)
    return fail(ErrorCode::io_error, said + ": " + std::strerror(errno));
  std::string folder = resolved.data();
  if (folder.size() > kLongestFolder || !is_printable(folder))
    return fail(
        ErrorCode::out_of_range,
        "programs: a path of at most " + std::to_string(kLongestFolder) + " printable characters");
  for (const char* const program : {kBrokerProgram, kAgentProgram}) {
    std::array<char, PATH_MAX> file{};
    if (::realpath((folder + "/" + program).c_str(), file.data()) == nullptr)
      return fail(ErrorCode::io_error, folder + " has no " + program + ": " + std::strerror(errno));
    if (auto fine = check_trusted(file.data()); !fine) return fail(fine.error());
  }
  if (auto fine = check_trusted(folder); !fine) return fail(fine.error());
  return folder;
}

void UpgradeService::refuse(const Error& error) {
  checks_.refuse(order_->request, error.within("host " + checks_.host() + " is not upgraded"));
  order_.reset();
}

void UpgradeService::on_upgrade_host(const Request& request, const wire::UpgradeHost& message) {
  const auto refused = [&](const Error& error) {
    checks_.refuse(request, error.within("host " + checks_.host() + " is not upgraded"));
  };
  if (!ask_warden_) return refused(Error(ErrorCode::refused, "it has no warden"));
  if (order_) return refused(Error(ErrorCode::refused, "another upgrade of it is under way"));
  auto folder = find_folder(message.programs());
  if (!folder) return refused(folder.error());
  std::string requester = short_text(message.requester()).substr(0, kLongestRequester);
  if (!is_printable(requester)) requester.clear();
  order_ = Order{request, std::move(*folder), std::move(requester), {}};
  ask(kBrokerProgram);
}

void UpgradeService::ask(const std::string& program) {
  auto run = HelperRun::start(reactor_, order_->folder + "/" + program, {"--release"},
                              kReleaseLimit, [this, program](const Result<std::string>& output) {
                                // The run ends with this call, and `output` may be its own.
                                const auto said = output;
                                const auto ended = std::move(run_);
                                on_program(program, said);
                              });
  if (!run) return refuse(run.error());
  run_ = std::move(*run);
}

void UpgradeService::on_program(const std::string& program, const Result<std::string>& output) {
  const std::string path = order_->folder + "/" + program;
  if (!output) return refuse(Error(ErrorCode::refused, output.error().detail()).within(path));
  const auto said = ProgramRelease::parse(*output, program);
  if (!said) return refuse(said.error().within(path));
  if (program == kBrokerProgram) return ask(kAgentProgram);
  if (auto fine = said->check_takes_over(); !fine) return refuse(fine.error().within(path));
  order_->release = said->release;
  ask_warden_(order_->folder + "\n" + order_->requester);
}

void UpgradeService::on_warden_answer(std::string_view answer) {
  if (!order_) return;
  constexpr std::string_view ok = "ok ";
  wire::UpgradeStartedT started;
  const char* const end = answer.data() + answer.size();
  if (!answer.starts_with(ok) ||
      std::from_chars(answer.data() + ok.size(), end, started.number).ptr != end)
    return refuse(Error(ErrorCode::refused, std::string(answer)));
  started.programs = order_->folder;
  started.release = order_->release;
  bus_.answer(order_->request, std::move(started));
  order_.reset();
}

}  // namespace meshbus::host

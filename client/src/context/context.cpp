#include "meshbus/context.h"

#include "client/src/context/async_call.h"
#include "client/src/context/check_owner.h"
#include "client/src/context/context_core.h"
#include "common/wire/settings_call.h"

namespace meshbus {

Context::Context(std::shared_ptr<ContextCore> core) : core_(std::move(core)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

Result<Context> Context::create(ContextOptions options) {
  auto core = ContextCore::create(std::move(options));
  if (!core) return fail(core.error());
  return Context(std::move(*core));
}

Result<std::string> Context::call(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                                  std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(core_); !fine) return fail(fine.error());
  const auto connection = core_->find_connection(core_, proc.host());
  if (!connection) return fail(connection.error());
  return (*connection)->calls().call(proc, port, body, deadline);
}

void Context::call_async(const ProcId& proc, std::uint32_t port, const BodyParts& body,
                         AsyncOptions options, AnswerHandler handler) {
  if (auto fine = check_owner(core_); !fine) return handler(fail(fine.error()));
  const auto call = std::make_shared<AsyncCall>(
      *core_, 1, options,
      [handler = std::move(handler)](std::uint64_t, Result<std::string> answer) {
        handler(std::move(answer));
      });
  call->watch(std::move(options.stop));
  const auto connection = core_->find_connection(core_, proc.host());
  if (!connection) return call->fail_all(connection.error());
  (*connection)->calls().call_async(proc, port, body, options.deadline, call);
}

Result<void> Context::send(const ProcId& proc, std::uint32_t port, const BodyParts& body) {
  if (auto fine = check_owner(core_); !fine) return fine;
  return core_->sender().send(proc, port, body);
}

Result<void> Context::cast(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body) {
  if (auto fine = check_owner(core_); !fine) return fine;
  if (to.num_ranks() == 0) return {};
  const auto connection = core_->find_connection(core_, to.proc_at(0)->host());
  if (!connection) return fail(connection.error());
  return (*connection)->calls().cast(to, port, body);
}

Result<std::vector<Result<std::string>>> Context::call(const ProcMeshRef& to, std::uint32_t port,
                                                       const BodyParts& body,
                                                       std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(core_); !fine) return fail(fine.error());
  if (to.num_ranks() == 0) return std::vector<Result<std::string>>();
  const auto connection = core_->find_connection(core_, to.proc_at(0)->host());
  if (!connection) return fail(connection.error());
  return (*connection)->calls().call_all(to, port, body, deadline);
}

void Context::call_async(const ProcMeshRef& to, std::uint32_t port, const BodyParts& body,
                         AsyncOptions options, RankAnswerHandler handler) {
  if (auto fine = check_owner(core_); !fine)
    return refuse_ranks(handler, to.num_ranks(), fine.error());
  if (to.num_ranks() == 0) return;
  const auto call =
      std::make_shared<AsyncCall>(*core_, to.num_ranks(), options, std::move(handler));
  call->watch(std::move(options.stop));
  const auto connection = core_->find_connection(core_, to.proc_at(0)->host());
  if (!connection) return call->fail_all(connection.error());
  (*connection)->calls().call_all_async(to, port, body, options.deadline, call);
}

Result<std::vector<Result<std::vector<ProcSetting>>>> Context::ask_settings(
    const ProcMeshRef& of, const std::string& body, std::chrono::milliseconds deadline) {
  auto answers = call(of, kSettingsPort, body, deadline);
  if (!answers) return fail(answers.error());
  std::vector<Result<std::vector<ProcSetting>>> settings;
  settings.reserve(answers->size());
  for (const auto& answer : *answers) {
    if (answer) {
      settings.push_back(decode_settings(*answer));
    } else {
      settings.emplace_back(fail(answer.error()));
    }
  }
  return settings;
}

Result<std::vector<Result<std::vector<ProcSetting>>>> Context::settings(
    const ProcMeshRef& of, std::chrono::milliseconds deadline) {
  return ask_settings(of, encode_settings_call({}), deadline);
}

Result<std::vector<Result<std::vector<ProcSetting>>>> Context::change_settings(
    const ProcMeshRef& of, std::vector<std::pair<std::string, std::string>> changes,
    std::chrono::milliseconds deadline) {
  return ask_settings(of, encode_settings_call(changes), deadline);
}

Result<std::string> Context::setting(std::string_view key) const {
  if (core_ == nullptr) return fail(moved_from_error());
  for (const auto& shown : core_->config().show()) {
    if (shown.key == key) return shown.value;
  }
  return fail(ErrorCode::configuration_error,
              "there is no setting " + std::string(key) + "; `meshbus config` lists them");
}

std::uint64_t Context::num_returned() const noexcept {
  return core_ == nullptr ? 0 : core_->returned().count();
}

std::vector<std::string> Context::warnings() const {
  return core_ == nullptr ? std::vector<std::string>() : core_->config().warnings();
}

}  // namespace meshbus

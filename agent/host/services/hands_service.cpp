#include "agent/host/services/hands_service.h"

#include "common/wire/control.h"
#include "wire/hands_generated.h"

namespace meshbus::host {
namespace {

/// An argument or a variable: Linux takes 128 KiB.
constexpr std::size_t kLongestWord = 128 * 1024 - 1;

/// Names the field of a request that is wrong, and why; empty: none is.
std::string find_mistake(const wire::StartExec& message) {
  if (message.task() > wire::ExecTask::MAX) return "task: this release does not know it";
  // The audit trail would not see its end.
  if (message.exec() == 0) return "exec: 0 is no number";
  if (message.arguments()->size() == 0) return "arguments: there is none";
  if (message.arguments()->Get(0)->size() == 0) return "arguments: the first one is empty";
  for (const auto* argument : *message.arguments()) {
    if (argument->size() > kLongestWord || argument->string_view().find('\0') != Bytes::npos)
      return "arguments: one is too long, or has a NUL inside";
  }
  if (message.environment() == nullptr) return {};
  for (const auto* variable : *message.environment()) {
    const auto name = variable->key()->string_view();
    if (name.empty() || name.find('=') != Bytes::npos || name.find('\0') != Bytes::npos ||
        variable->value()->string_view().find('\0') != Bytes::npos ||
        name.size() + variable->value()->size() > kLongestWord - 64)
      return "environment: a name or a value is not possible";
  }
  return {};
}

}  // namespace

void HandsService::add_rows(Dispatcher& handlers, const std::unique_ptr<HandsService>& service) {
  using Self = HandsService;
  handlers.on<wire::StartExec>(Role::operate, row(service, &Self::on_start_exec))
      .on<wire::ExecInput>(Role::operate, row(service, &Self::on_exec_input))
      .on<wire::ExecControl>(Role::operate, row(service, &Self::on_exec_control))
      .on<wire::ExecTaken>(Role::operate, row(service, &Self::on_exec_taken));
}

void HandsService::on_start_exec(const Request& request, const wire::StartExec& message) {
  if (const auto mistake = find_mistake(message); !mistake.empty())
    return checks_.refuse(request, Error(ErrorCode::out_of_range, "StartExec." + mistake));
  const auto requester = checks_.find_sender(request, message.requester(), "StartExec.requester");
  if (!requester) return;
  const Mesh* const mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const Proc* const proc = mesh->find(message.rank());
  if (proc == nullptr)
    return checks_.refuse(
        request, Error(ErrorCode::not_exist, "mesh " + mesh->name + " has no rank " +
                                                 std::to_string(message.rank()) + " on host " +
                                                 checks_.host()));
  execs_.start(*proc, *requester, message, [this, request](const Result<std::uint32_t>& pid) {
    if (!pid) return checks_.refuse(request, pid.error());
    wire::ExecStartedT started;
    started.pid = *pid;
    bus_.answer(request, started);
  });
  if (execs_.has(*requester)) ownership_.watch(*requester);
}

Exec* HandsService::find(const Request& request, std::uint64_t number) {
  Exec* const exec = execs_.find(request.envelope.source_proc(), number);
  if (exec == nullptr)
    checks_.refuse(request, Error(ErrorCode::not_exist,
                                  "host " + checks_.host() + " has no such exec of this sender"));
  return exec;
}

void HandsService::on_exec_input(const Request& request, const wire::ExecInput& message) {
  Exec* const exec = find(request, message.exec());
  if (exec == nullptr) return;
  const auto* bytes = message.data();
  const Bytes data = bytes == nullptr ? Bytes() : bytes_of(bytes->data(), bytes->size());
  exec->input().write(message.offset(), data, message.end(),
                      [this, request](const Result<void>& written) {
                        if (written) return checks_.ack(request);
                        checks_.refuse(request, written.error());
                      });
}

void HandsService::on_exec_control(const Request& request, const wire::ExecControl& message) {
  if (message.signal() > 64)
    return checks_.refuse(request, Error(ErrorCode::out_of_range,
                                         "ExecControl.signal: there is no signal " +
                                             std::to_string(message.signal()) + "; 1 to 64"));
  Exec* const exec = find(request, message.exec());
  if (exec == nullptr) return;
  if (message.rows() != 0 || message.columns() != 0)
    exec->input().resize({message.rows(), message.columns()});
  if (message.signal() != 0) exec->signal(message.signal());
  if (message.end()) exec->end("its requester has ended it", /*now=*/false);
  checks_.ack(request);
}

void HandsService::on_exec_taken(const Request& request, const wire::ExecTaken& message) {
  Exec* const exec = find(request, message.exec());
  if (exec == nullptr) return;
  exec->taken(message.sequence(), message.resend(), message.ended());
  checks_.ack(request);
}

}  // namespace meshbus::host

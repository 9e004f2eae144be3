// Answers that come reduced (schemas/replies.fbs).
#include <utility>

#include "client/src/base/accumulating.h"
#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "wire/frame_generated.h"
#include "wire/replies_generated.h"

namespace meshbus {

Result<Accumulation> Connection::accumulate(const ProcMeshRef& to, std::uint32_t port,
                                            std::string_view body, Reducer reducer,
                                            const AccumulateOptions& options) {
  // Hosts are told the address of the asker.
  if (auto up = wait_up(options.deadline); !up) return fail(up.error());
  std::shared_ptr<Accumulating> running;
  const auto asked = core_.run([&]() -> Result<void> {
    if (gateway_.bus() == nullptr) return fail(gateway_.closed_error());
    auto plan = calls_.plan(to);
    if (!plan) return fail(plan.error());
    Accumulating::Question question{.to = std::move(*plan),
                                    .port = port,
                                    .body = std::string(body),
                                    .asker = self(),
                                    .reducer = std::move(reducer),
                                    .deadline = Calls::clamp(options.deadline),
                                    .has_snapshots = options.on_snapshot != nullptr};
    // The incarnation tells an agent from its successor, which will not answer what it was asked.
    for (const auto& host : to.hosts()) upkeep_.identify(host);
    running = std::make_shared<Accumulating>(
        *gateway_.bus(), std::move(question),
        [this](const Error& error) { return gateway_.status().explain(error); });
    if (auto begun = running->begin(); !begun) return begun;
    accumulating_.emplace(running->ticket(), running);
    return {};
  });
  if (!asked) return fail(asked.error());
  const bool is_over = running->wait(options);
  core_.run([&] {
    if (!is_over) running->end();
    accumulating_.erase(running->ticket());
  });
  return running->result();
}

void Connection::on_data(const wire::Envelope& envelope, const wire::CallHeader& header,
                         Bytes body) {
  wire::CollectedPart part;
  if (envelope.kind() == wire::Kind::message &&
      envelope.port() == static_cast<std::uint32_t>(wire::CollectPort::part)) {
    if (!take_header(body, part)) return;
    if (const auto found = accumulating_.find(part.ticket()); found != accumulating_.end())
      found->second->on_part(envelope, part, body);
    return;
  }
  const Error error(ErrorCode::no_such_port,
                    "nothing here listens on port " + std::to_string(envelope.port()));
  if (envelope.kind() == wire::Kind::call) {
    gateway_.bus()->fail_call(envelope, header, error);
  } else {
    gateway_.bus()->give_back(envelope, error);
  }
}

}  // namespace meshbus

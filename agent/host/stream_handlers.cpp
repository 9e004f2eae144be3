// The handlers of streams: states and logs, for who asks for them.
#include "agent/host/host_agent.h"
#include "agent/host/updates/mesh_report.h"
#include "wire/lifecycle_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::host {

namespace {
constexpr std::size_t kMostSubscribers = 1000;
}

std::optional<ProcId> HostAgent::find_subscriber(const Request& request,
                                                 const flatbuffers::String* claimed,
                                                 std::string_view field) {
  auto subscriber = ProcId::parse(claimed->string_view());
  if (!subscriber)
    return bus_->refuse(request, subscriber.error().within(std::string(field))), std::nullopt;
  if (subscriber->key() == request.envelope.source_proc() &&
      subscriber->host().key() == request.envelope.source_host())
    return *subscriber;
  bus_->refuse(request, Error(ErrorCode::identity_mismatch,
                              std::string(field) + ": '" + subscriber->to_string() +
                                  "' is not who sends this; a stream goes to who asks for it"));
  return std::nullopt;
}

void HostAgent::on_stream_state(const Request& request, const wire::StreamState& message) {
  const auto subscriber = find_subscriber(request, message.subscriber(), "StreamState.subscriber");
  if (!subscriber) return;
  Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  if (mesh->subscribers.size() >= kMostSubscribers)
    return bus_->refuse(request, Error(ErrorCode::queue_full, "mesh " + mesh->name + " has " +
                                                                  std::to_string(kMostSubscribers) +
                                                                  " subscribers already"));
  // What is not told yet goes to the others first: it is in the answer, and must not be told again
  // behind it.
  publisher_->flush_changes(*mesh);
  mesh->subscribers.insert_or_assign(subscriber->to_string(), *subscriber);
  procs_->table().touch(*mesh);
  std::vector<const Proc*> later;
  bus_->answer(request, make_mesh_state(*mesh, report_bytes, &later));
  publisher_->send_exit_reports(*mesh, later, *subscriber);
  peers_->add(*subscriber);
}

void HostAgent::on_stop_stream(const Request& request, const wire::StopStream& message) {
  const auto subscriber = find_subscriber(request, message.subscriber(), "StopStream.subscriber");
  if (!subscriber) return;
  ack(request);
  Mesh* mesh = procs_->table().find_mesh(message.mesh()->string_view());
  if (mesh == nullptr || mesh->subscribers.erase(subscriber->to_string()) == 0) return;
  procs_->table().touch(*mesh);
  if (!is_watched_still(*subscriber)) peers_->remove(*subscriber);
}

void HostAgent::on_stream_logs(const Request& request, const wire::StreamLogs& message) {
  const auto subscriber = find_subscriber(request, message.subscriber(), "StreamLogs.subscriber");
  if (!subscriber) return;
  Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  auto started = logs_->start(*mesh, *subscriber, message);
  if (!started) return bus_->refuse(request, started.error());
  bus_->answer(request, std::move(*started));
  peers_->add(*subscriber);
}

void HostAgent::on_log_taken(const Request& request, const wire::LogTaken& message) {
  Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto taken = logs_->taken(*mesh, request.envelope.source_proc(), message);
  if (!taken) return bus_->refuse(request, taken.error());
  ack(request);
}

void HostAgent::on_stop_logs(const Request& request, const wire::StopLogs& message) {
  ack(request);
  if (Mesh* mesh = procs_->table().find_mesh(message.mesh()->string_view()); mesh != nullptr)
    logs_->stop(*mesh, request.envelope.source_proc(), message.stream());
}

}  // namespace meshbus::host

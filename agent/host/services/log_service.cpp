#include "agent/host/services/log_service.h"

#include <utility>

#include "wire/logs_generated.h"

namespace meshbus::host {

void LogService::add_rows(Dispatcher& handlers, const std::unique_ptr<LogService>& service) {
  using Self = LogService;
  handlers.on<wire::OutputTaken>(Role::operate, row(service, &Self::on_output_taken))
      .on<wire::StreamLogs>(Role::observe, row(service, &Self::on_stream_logs))
      .on<wire::LogTaken>(Role::observe, row(service, &Self::on_log_taken))
      .on<wire::StopLogs>(Role::observe, row(service, &Self::on_stop_logs));
}

void LogService::on_output_taken(const Request& request, const wire::OutputTaken& message) {
  Mesh* mesh = procs_.table().find_mesh(message.mesh()->string_view());
  if (mesh == nullptr || mesh->ownership.key() != request.envelope.source_proc()) return;
  procs_.outputs().on_taken(*mesh, message);
  publisher_.mark(*mesh);
}

void LogService::on_stream_logs(const Request& request, const wire::StreamLogs& message) {
  const auto subscriber =
      checks_.find_sender(request, message.subscriber(), "StreamLogs.subscriber");
  if (!subscriber) return;
  Mesh* mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  auto started = logs_.start(*mesh, *subscriber, message);
  if (!started) return checks_.refuse(request, started.error());
  bus_.answer(request, std::move(*started));
  ownership_.watch(*subscriber);
}

void LogService::on_log_taken(const Request& request, const wire::LogTaken& message) {
  Mesh* mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto taken = logs_.taken(*mesh, request.envelope.source_proc(), message);
  if (!taken) return checks_.refuse(request, taken.error());
  checks_.ack(request);
}

void LogService::on_stop_logs(const Request& request, const wire::StopLogs& message) {
  checks_.ack(request);
  Mesh* mesh = procs_.table().find_mesh(message.mesh()->string_view());
  if (mesh != nullptr) logs_.stop(*mesh, request.envelope.source_proc(), message.stream());
}

}  // namespace meshbus::host

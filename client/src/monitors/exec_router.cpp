#include "client/src/monitors/exec_router.h"

#include <functional>

#include "wire/hands_generated.h"

namespace meshbus {

void ExecRouter::handle(Dispatcher& handlers) {
  handlers.on<wire::ExecOutput>(Role::host, std::bind_front(&ExecRouter::on_output, this))
      .on<wire::ExecEnded>(Role::host, std::bind_front(&ExecRouter::on_ended, this));
}

void ExecRouter::add(const std::shared_ptr<ExecStream>& stream) {
  streams_.insert_or_assign(stream->number(), stream);
  stream->start(gateway_);
}

ExecStream* ExecRouter::find(const Request& request, std::uint64_t number) const {
  const auto found = streams_.find(number);
  const bool is_its_host =
      found != streams_.end() && found->second->host().key() == request.envelope.source_host();
  return is_its_host ? found->second.get() : nullptr;
}

void ExecRouter::on_output(const Request& request, const wire::ExecOutput& output) {
  if (auto* const stream = find(request, output.exec())) stream->on_output(output);
}

void ExecRouter::on_ended(const Request& request, const wire::ExecEnded& ended) {
  if (auto* const stream = find(request, ended.exec())) stream->on_ended(ended);
}

void ExecRouter::resync_all() {
  for (const auto& [number, stream] : streams_) stream->resync();
}

void ExecRouter::lose(const HostAddr& host, const std::string& reason) {
  for (const auto& [number, stream] : streams_) {
    if (stream->host() == host) stream->on_lost(reason);
  }
}

void ExecRouter::close(const std::string& reason) {
  for (const auto& [number, stream] : streams_) stream->on_lost(reason);
  streams_.clear();
}

}  // namespace meshbus

#include "common/wire/message_size.h"

#include "wire/control_generated.h"

namespace meshbus {
namespace {

// A reference and a length: what is there takes so much even when it is empty.
constexpr std::size_t kReference = 8;

std::size_t size_of(const flatbuffers::String* text) {
  return text == nullptr ? 0 : kReference + text->size();
}

template <typename T>
std::size_t size_of(const flatbuffers::Vector<T>* values) {
  return values == nullptr ? 0 : kReference + values->size() * sizeof(T);
}

/// Structs lie in the vector itself.
template <typename T>
std::size_t size_of(const flatbuffers::Vector<const T*>* structs) {
  return structs == nullptr ? 0 : kReference + structs->size() * sizeof(T);
}

std::size_t size_of(const wire::KeyValue* pair);
std::size_t size_of(const wire::ExitReport* exit_report);
std::size_t size_of(const wire::MeshState* state);
std::size_t size_of(const wire::OutputChunk* chunk);
std::size_t size_of(const wire::Status* status);
std::size_t size_of(const wire::Drain* drain);
std::size_t size_of(const wire::Event* event);
std::size_t size_of(const wire::ActorState* actor);
std::size_t size_of(const wire::MeshOverview* mesh);

/// Tables and texts lie elsewhere, maybe all in one place.
template <typename T>
std::size_t size_of(const flatbuffers::Vector<flatbuffers::Offset<T>>* list) {
  std::size_t bytes = 0;
  for (flatbuffers::uoffset_t i = 0; list != nullptr && i < list->size(); ++i)
    bytes += size_of(list->Get(i));
  return bytes;
}

std::size_t size_of(const wire::KeyValue* pair) {
  return size_of(pair->key()) + size_of(pair->value());
}

std::size_t size_of(const wire::Region* region) {
  return size_of(region->labels()) + size_of(region->sizes()) + size_of(region->strides());
}

std::size_t size_of(const wire::Command* command) {
  return size_of(command->program()) + size_of(command->arguments()) +
         size_of(command->environment()) + size_of(command->directory());
}

std::size_t size_of(const wire::ExitReport* exit_report) {
  return kReference + size_of(exit_report->reason()) + size_of(exit_report->stderr_tail()) +
         size_of(exit_report->stopped_by()) + size_of(exit_report->stop_reason()) +
         (exit_report->usage() == nullptr ? 0 : sizeof(wire::RankUsage));
}

std::size_t size_of(const wire::Event* event) {
  return kReference + sizeof(wire::RankState) + size_of(event->mesh()) + size_of(event->ranks()) +
         size_of(event->by()) + size_of(event->text()) + size_of(event->point()) +
         (event->exit_report() == nullptr ? 0 : size_of(event->exit_report()));
}

std::size_t size_of(const wire::Ownership* ownership) {
  return ownership == nullptr ? 0 : kReference + size_of(ownership->owner());
}

std::size_t size_of(const wire::MeshState* state) {
  return kReference + size_of(state->mesh()) + size_of(state->region()) + size_of(state->hosts()) +
         size_of(state->owner()) + size_of(state->command()) + size_of(state->ranks()) +
         size_of(state->exit_reports()) + size_of(state->launch()) + size_of(state->usage()) +
         size_of(state->ownership()) + size_of(state->troubles());
}

std::size_t size_of(const wire::OutputChunk* chunk) {
  return kReference + size_of(chunk->data());
}

std::size_t size_of(const wire::Status* status) {
  return kReference + size_of(status->reason());
}

std::size_t size_of(const wire::Drain* drain) {
  return kReference + size_of(drain->owner()) + size_of(drain->mesh()) + size_of(drain->reason()) +
         size_of(drain->requester());
}

std::size_t size_of(const wire::ActorState* actor) {
  return kReference + size_of(actor->name()) + size_of(actor->type()) + size_of(actor->reason()) +
         size_of(actor->message()) + size_of(actor->causes());
}

std::size_t size_of(const wire::MeshOverview* mesh) {
  return kReference + size_of(mesh->mesh()) + size_of(mesh->ownership()) +
         (mesh->region() == nullptr ? 0 : size_of(mesh->region())) +
         (mesh->statuses() == nullptr
              ? 0
              : size_of(mesh->statuses()->values()) + size_of(mesh->statuses()->runs()));
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): one row for each message
std::size_t unpacked_bytes(const wire::Control& control) {
  if (const auto* body = control.body_as_SpawnProcs())
    return size_of(body->region()) + size_of(body->hosts()) + size_of(body->create_ranks()) +
           size_of(body->command()) + size_of(body->input_ranks()) + size_of(body->config());
  if (const auto* body = control.body_as_MeshState()) return size_of(body);
  if (const auto* body = control.body_as_MeshList()) return size_of(body->meshes());
  if (const auto* body = control.body_as_StateChanged())
    return size_of(body->ranks()) + size_of(body->exit_reports()) + size_of(body->launch()) +
           size_of(body->ownership()) + size_of(body->troubles());
  if (const auto* body = control.body_as_MeshEvent())
    return size_of(body->ranks()) + size_of(body->exit_reports()) + size_of(body->troubles());
  if (const auto* body = control.body_as_Subscribe()) return size_of(body->ranks());
  if (const auto* body = control.body_as_MeshHeartbeat())
    return size_of(body->unreachable()) + size_of(body->meshes());
  if (const auto* body = control.body_as_ControllerState())
    return size_of(body->unreachable()) + size_of(body->meshes());
  if (const auto* body = control.body_as_Output())
    return size_of(body->chunks()) + size_of(body->ended());
  if (const auto* body = control.body_as_EventList()) return size_of(body->events());
  if (const auto* body = control.body_as_OfferMesh()) return size_of(body->hosts());
  if (const auto* body = control.body_as_RenewLease()) return size_of(body->meshes());
  if (const auto* body = control.body_as_RankStatuses())
    return size_of(body->statuses()->values()) + size_of(body->statuses()->runs());
  if (const auto* body = control.body_as_Taken()) return size_of(body->runs());
  if (const auto* body = control.body_as_HostState()) return size_of(body->drains());
  if (const auto* body = control.body_as_ActorState()) return size_of(body->causes());
  if (const auto* body = control.body_as_ActorList()) return size_of(body->actors());
  if (const auto* body = control.body_as_ActorEvent()) return size_of(body->actors());
  return 0;  // no list of what lies elsewhere: each field is there once
}

}  // namespace meshbus

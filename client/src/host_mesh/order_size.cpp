#include <algorithm>
#include <string>
#include <utility>

#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using std::chrono::milliseconds;

/// The host passes the order on, and the owner undoes what it gives up.
constexpr std::chrono::seconds kAnswerSlack{15};

std::uint32_t to_ms(milliseconds time) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, UINT32_MAX));
}

std::uint32_t to_count(std::uint64_t blocks) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, UINT32_MAX));
}

/// The host has certainly not passed the order on: another one may.
bool is_not_taken(ErrorCode code) {
  return code == ErrorCode::not_exist || code == ErrorCode::no_such_host ||
         code == ErrorCode::no_such_proc || code == ErrorCode::host_unreachable;
}

Result<OrderedResize> to_report(const std::string& what, const ControlMessage& answer) {
  const auto* const resized = answer.body_as<wire::MeshResized>();
  if (resized == nullptr)
    return fail(ErrorCode::malformed_message, what + ": it answered " + answer.body_name());
  if (resized->code() != wire::ErrorCode::none)
    return fail(from_wire(resized->code()), text_of(resized->problem()));
  OrderedResize report{.size = resized->size()};
  const auto ranks = resized->ranks() == nullptr ? 0U : resized->ranks()->size();
  for (flatbuffers::uoffset_t i = 0; i < ranks; ++i)
    report.ranks.push_back({resized->ranks()->Get(i)->begin(), resized->ranks()->Get(i)->end()});
  const auto hosts = resized->hosts() == nullptr ? 0U : resized->hosts()->size();
  for (flatbuffers::uoffset_t i = 0; i < hosts; ++i) {
    auto host = HostAddr::parse(resized->hosts()->Get(i)->string_view());
    if (!host) return fail(host.error().within(what));
    report.hosts.push_back(std::move(*host));
  }
  return report;
}

/// Gives it to the hosts, one after the other, until one has taken it.
Result<OrderedResize> give_order(const HostMesh::Impl& hosts, wire::OrderResizeT order,
                                 milliseconds deadline) {
  const auto limit = std::min<milliseconds>(deadline, std::chrono::hours(24));
  auto& connection = hosts.connection();
  order.limit_ms = to_ms(limit);
  order.requester = connection.self();
  const auto what = (order.shrink ? "shrink " : "grow ") + order.mesh;
  Error error(ErrorCode::not_exist, "no mesh " + order.mesh + " on these hosts");
  for (const auto& host : hosts.distinct_hosts()) {
    const auto answer =
        connection.ask(Destination::to_agent(host), order, limit + kAnswerSlack).get();
    if (answer) return to_report(what, *answer);
    if (answer.error().code() == ErrorCode::no_such_port)
      return fail(ErrorCode::refused, what + ": host " + host.to_string() +
                                          " is of a release that passes no such orders on");
    if (!is_not_taken(answer.error().code()))
      return fail(answer.error().code() == ErrorCode::unauthorised
                      ? answer.error().within(what + ": host " + host.to_string())
                      : answer.error());
    // A host that has the mesh and does not answer matters more than one that does not have it.
    if (error.code() == ErrorCode::not_exist) error = answer.error();
  }
  return fail(error.within(what));
}

}  // namespace

Result<OrderedResize> HostMesh::grow_mesh(std::string_view mesh, GrowOptions options,
                                          milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  wire::OrderResizeT order;
  order.mesh = mesh;
  order.blocks = to_count(options.blocks);
  for (const auto& host : options.hosts) order.hosts.push_back(host.to_string());
  return give_order(*impl_, std::move(order), deadline);
}

Result<OrderedResize> HostMesh::shrink_mesh(std::string_view mesh, ShrinkOptions options,
                                            milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  wire::OrderResizeT order;
  order.mesh = mesh;
  order.shrink = true;
  order.blocks = to_count(options.blocks);
  if (options.grace) order.grace_ms = to_ms(*options.grace);
  return give_order(*impl_, std::move(order), deadline);
}

}  // namespace meshbus

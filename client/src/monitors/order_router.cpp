#include "client/src/monitors/order_router.h"

#include <algorithm>
#include <utility>

#include "client/src/base/wire_reports.h"
#include "client/src/gateway/gateway.h"
#include "client/src/monitors/mesh_monitor.h"
#include "common/wire/control.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

void OrderRouter::handle(Dispatcher& handlers) {
  handlers.on<wire::OrderResize>(Role::host, std::bind_front(&OrderRouter::on_order_resize, this));
}

void OrderRouter::add(const std::string& mesh, Taker taker) {
  takers_.insert_or_assign(mesh, std::move(taker));
}

void OrderRouter::refuse(const Request& request, ErrorCode code, const std::string& why) {
  gateway_.bus()->refuse(request, Error(code, why));
}

void OrderRouter::on_order_resize(const Request& request, const wire::OrderResize& message) {
  const auto name = message.mesh()->str();
  const HostAddr* from = nullptr;
  const auto* const monitor = find_(request, message.mesh(), &from);
  if (monitor == nullptr)
    return refuse(request, ErrorCode::not_exist, "this launcher has no mesh " + name);
  // A host speaks for meshes that it is a part of.
  const auto& hosts = monitor->mesh().hosts();
  if (std::find(hosts.begin(), hosts.end(), *from) == hosts.end())
    return refuse(request, ErrorCode::unauthorised,
                  "mesh " + name + " is not on host " + from->to_string());
  if (!monitor->options().handlers.on_resize_order)
    return refuse(request, ErrorCode::refused,
                  "mesh " + name + ": its launcher takes no orders for another size");
  const auto taker = takers_.find(name);
  if (taker == takers_.end())
    return refuse(request, ErrorCode::would_block,
                  "mesh " + name + ": its ranks are still being started; order it again later");
  OrderedSize order{.is_growth = !message.shrink(),
                    .blocks = message.blocks(),
                    .limit = std::chrono::milliseconds(message.limit_ms()),
                    .requester = text_of(message.requester())};
  if (const auto grace = message.grace_ms()) order.grace = std::chrono::milliseconds(*grace);
  const auto count = message.hosts() == nullptr ? 0U : message.hosts()->size();
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    auto host = HostAddr::parse(message.hosts()->Get(i)->string_view());
    if (!host) return refuse(request, host.error().code(), host.error().detail());
    order.hosts.push_back(std::move(*host));
  }
  if (count > 0) order.blocks = count;
  taker->second(std::move(order), [this, alive = std::weak_ptr<void>(alive_), request,
                                   name](const Result<OrderedResize>& resized) {
    if (!alive.expired()) answer(request, name, resized);
  });
}

void OrderRouter::answer(const Request& request, const std::string& mesh,
                         const Result<OrderedResize>& resized) {
  if (gateway_.bus() == nullptr) return;
  wire::MeshResizedT done;
  done.mesh = mesh;
  if (!resized) {
    done.code = static_cast<wire::ErrorCode>(resized.error().code());
    done.problem = resized.error().detail();
    return gateway_.bus()->answer(request, done);
  }
  done.size = resized->size;
  done.ranks = to_wire(resized->ranks);
  for (const auto& host : resized->hosts) done.hosts.push_back(host.to_string());
  gateway_.bus()->answer(request, done);
}

}  // namespace meshbus

#include "meshbus/roles.h"

#include <algorithm>
#include <cstdlib>

namespace meshbus {
namespace {

std::string_view variable(const std::string& name) {
  const char* const text = std::getenv(name.c_str());
  return text == nullptr ? std::string_view() : std::string_view(text);
}

}  // namespace

std::string own_role() {
  return std::string(variable("MESHBUS_ROLE"));
}

std::vector<std::string> roles() {
  std::vector<std::string> names;
  auto list = variable("MESHBUS_ROLES");
  while (!list.empty()) {
    const auto comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return names;
}

Result<ProcMeshRef> role(std::string_view name) {
  const auto names = roles();
  // A variable alone is not enough: that of "store_ADDR" is no role's.
  const bool is_there = std::find(names.begin(), names.end(), name) != names.end();
  const auto text = is_there ? variable(role_variable(name)) : std::string_view();
  if (text.empty()) {
    const auto all = variable("MESHBUS_ROLES");
    return fail(ErrorCode::not_exist,
                "role '" + std::string(name) + "': " +
                    (all.empty() ? "this process is no rank of a job with roles"
                                 : "the roles of this job are " + std::string(all)));
  }
  auto mesh = ProcMeshRef::parse(text);
  if (!mesh) return fail(mesh.error().within(role_variable(name)));
  return mesh;
}

std::string role_variable(std::string_view name) {
  std::string text = "MESHBUS_ROLE_";
  for (const char c : name) text += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

}  // namespace meshbus

#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus mesh`: the algebra of meshes given as texts; needs no host.
void add_mesh(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli

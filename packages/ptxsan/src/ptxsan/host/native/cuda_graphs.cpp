// Graphs: nodes of work with what they come after, built by hand or captured from streams. A launch
// runs them in an order that their edges allow, each on a timeline of its own.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "host_runtime.h"

namespace host {

struct Node {
  Graph* graph;
  cudaGraphNodeType type;
  Work work;
  std::vector<Node*> after;
  Place place;
  cudaKernelNodeParams kernel{};
  std::shared_ptr<Arguments> arguments;
  Graph* child = nullptr;
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

namespace {
// An executable graph: copies of the nodes, every one after those before it in the list.
struct Step {
  const Node* of;
  Work work;
  std::vector<std::size_t> after;
  Place place;
  std::vector<Step> inner;
  bool enabled = true;
};
struct Exec {
  std::vector<Step> steps;
};
std::mutex guard;
std::set<const void*> graphs, execs;

Graph* graph_of(cudaGraph_t graph) {
  std::lock_guard<std::mutex> lock(guard);
  return graphs.count(graph) ? reinterpret_cast<Graph*>(graph) : nullptr;
}
Exec* exec_of(cudaGraphExec_t exec) {
  std::lock_guard<std::mutex> lock(guard);
  return execs.count(exec) ? reinterpret_cast<Exec*>(exec) : nullptr;
}
Node* node_of(cudaGraphNode_t node) { return reinterpret_cast<Node*>(node); }
cudaGraph_t handle(Graph* graph) { return reinterpret_cast<cudaGraph_t>(graph); }
cudaGraphNode_t handle(Node* node) { return reinterpret_cast<cudaGraphNode_t>(node); }

Graph* made_graph() {
  auto* made = new Graph;
  std::lock_guard<std::mutex> lock(guard);
  graphs.insert(made);
  return made;
}

Node* add(Graph* graph, cudaGraphNodeType type, Work work, std::vector<Node*> after) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  graph->nodes.push_back(std::unique_ptr<Node>(
      new Node{graph, type, std::move(work), std::move(after), here}));
  return graph->nodes.back().get();
}

// The steps of a graph; false where its edges close a circle.
bool steps_of(const Graph* graph, std::vector<Step>& steps) {
  std::map<const Node*, std::size_t> done;
  while (done.size() < graph->nodes.size()) {
    const std::size_t before = done.size();
    for (const auto& one : graph->nodes) {
      if (done.count(one.get())) continue;
      std::vector<std::size_t> after;
      for (const Node* each : one->after)
        if (done.count(each)) after.push_back(done[each]);
      if (after.size() < one->after.size()) continue;
      done[one.get()] = steps.size();
      steps.push_back(Step{one.get(), one->work, after, one->place, {}});
      if (one->child != nullptr && !steps_of(one->child, steps.back().inner)) return false;
    }
    if (done.size() == before) return false;
  }
  return true;
}

std::uint64_t timeline(const Step& step) {
  const auto id = reinterpret_cast<std::uint64_t>(&step);
  static std::set<std::uint64_t> known;
  if (known.insert(id).second) order(kCreated, id, 1);
  return id;
}

cudaError_t run(const std::vector<Step>& steps, std::uint64_t stream) {
  order(kStepped, stream);
  cudaError_t error = cudaSuccess;
  for (const Step& one : steps) {
    const std::uint64_t own = timeline(one);
    if (one.after.empty()) order(kWaitsStream, own, stream);
    for (std::size_t each : one.after) order(kWaitsStream, own, timeline(steps[each]));
    if (!one.enabled) continue;
    here = one.place;
    const cudaError_t found = !one.inner.empty() ? run(one.inner, own)
                              : one.work         ? one.work(own)
                                                 : cudaSuccess;
    if (error == cudaSuccess) error = found;
  }
  for (const Step& one : steps) order(kWaitsStream, stream, timeline(one));
  return error;
}

cudaError_t add_by_hand(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                        std::size_t count, cudaGraphNodeType type, Work work) {
  Graph* object = graph_of(graph);
  if (made == nullptr || object == nullptr || (count > 0 && after == nullptr))
    return result(cudaErrorInvalidValue);
  std::vector<Node*> nodes;
  for (std::size_t i = 0; i < count; ++i) nodes.push_back(node_of(after[i]));
  *made = handle(add(object, type, std::move(work), std::move(nodes)));
  return result(cudaSuccess);
}

// What a kernel node does; empty where there is no such kernel.
Work kernel_work(const cudaKernelNodeParams& p, std::shared_ptr<Arguments>* kept) {
  *kept = p.kernelParams ? Arguments::kept(p.func, p.kernelParams) : std::make_shared<Arguments>();
  if (*kept == nullptr) return nullptr;
  LaunchCall call{p.func,
                        {p.gridDim.x, p.gridDim.y, p.gridDim.z, p.blockDim.x, p.blockDim.y,
                         p.blockDim.z, 1, 1, 1},
                        0, p.sharedMemBytes, nullptr, 0, nullptr, 0};
  return [call, kept = *kept](std::uint64_t id) mutable {
    call.stream = id;
    call.arguments = kept->places.data();
    return run_launch(call);
  };
}
Work copy_work(const Copy& one) {
  return [one](std::uint64_t id) { return run_copy(one, id, false, "a memcpy node"); };
}
Work set_work(const cudaMemsetParams& p) {
  return [p](std::uint64_t id) {
    return run_fill(p.dst, static_cast<int>(p.value), p.width * p.elementSize, p.height, p.pitch,
                    p.elementSize, id, "a memset node");
  };
}
Work host_work(const cudaHostNodeParams& p) {
  return [p](std::uint64_t id) {
    order(kHostFunction, id, 1);
    p.fn(p.userData);
    order(kHostFunction, id, 0);
    return cudaSuccess;
  };
}
Step* step_of(cudaGraphExec_t exec, cudaGraphNode_t node) {
  Exec* object = exec_of(exec);
  if (object == nullptr) return nullptr;
  for (Step& one : object->steps)
    if (one.of == node_of(node)) return &one;
  return nullptr;
}
cudaError_t replace(cudaGraphExec_t exec, cudaGraphNode_t node, Work work) {
  Step* step = step_of(exec, node);
  if (step == nullptr || !work) return result(cudaErrorInvalidValue);
  step->work = std::move(work);
  return result(cudaSuccess);
}
}  // namespace

Node* add_node(Capture* capture, cudaGraphNodeType type, Work work,
               const std::vector<Node*>& after) {
  return add(capture->graph, type, std::move(work), after);
}
void capture_begins(Stream* stream, Capture* capture);
std::vector<Node*> capture_ends(Capture* capture);

}  // namespace host

using namespace host;

// Captures ---------------------------------------------------------------------------------------

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Stream* object = stream_of(stream);
  if (object == nullptr)
    return result(is_stream(stream) ? cudaErrorStreamCaptureUnsupported
                                    : cudaErrorInvalidResourceHandle);
  if (object->capture != nullptr) return result(cudaErrorIllegalState);
  auto* capture = new Capture;
  capture->graph = made_graph();
  capture->origin = object;
  capture->mode = mode;
  capture_begins(object, capture);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Stream* object = stream_of(stream);
  if (object == nullptr || graph == nullptr) return result(cudaErrorInvalidResourceHandle);
  Capture* capture = object->capture;
  if (capture == nullptr) return result(cudaErrorIllegalState);
  if (capture->origin != object) return result(cudaErrorStreamCaptureUnmatched);
  *graph = nullptr;
  // What the origin's end comes after: the ends of other streams have to be among it.
  std::set<Node*> joined;
  std::vector<Node*> left = object->tail;
  while (!left.empty()) {
    Node* one = left.back();
    left.pop_back();
    if (joined.insert(one).second) left.insert(left.end(), one->after.begin(), one->after.end());
  }
  for (Node* one : capture_ends(capture))
    if (!joined.count(one)) {
      if (!capture->broken) return result(cudaErrorStreamCaptureUnjoined);
    }
  if (capture->broken) return result(cudaErrorStreamCaptureInvalidated);
  *graph = handle(capture->graph);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  *status = object == nullptr || object->capture == nullptr ? cudaStreamCaptureStatusNone
            : object->capture->broken                       ? cudaStreamCaptureStatusInvalidated
                                                            : cudaStreamCaptureStatusActive;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                            unsigned long long* id, cudaGraph_t* graph,
                                            const cudaGraphNode_t** after,
                                            const cudaGraphEdgeData** edges, std::size_t* count) {
  const cudaError_t error = cudaStreamIsCapturing(stream, status);
  const Stream* object = stream_of(stream);
  if (error != cudaSuccess || object == nullptr || object->capture == nullptr) return error;
  if (id) *id = reinterpret_cast<unsigned long long>(object->capture);
  if (graph) *graph = handle(object->capture->graph);
  if (after) *after = reinterpret_cast<const cudaGraphNode_t*>(object->tail.data());
  if (edges) *edges = nullptr;
  if (count) *count = object->tail.size();
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
  std::swap(now, *mode);
  return result(cudaSuccess);
}

// Graphs -----------------------------------------------------------------------------------------

EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = handle(made_graph());
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph_of(graph) == nullptr) return result(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> lock(guard);
  graphs.erase(graph);  // its nodes stay: what was made of them refers to them
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphClone(cudaGraph_t* made, cudaGraph_t graph) {
  const Graph* from = graph_of(graph);
  if (from == nullptr) return result(cudaErrorInvalidValue);
  Graph* to = made_graph();
  std::map<const Node*, Node*> twins;
  for (const auto& one : from->nodes) {
    Node* twin = add(to, one->type, one->work, {});
    twin->place = one->place;
    twin->kernel = one->kernel;
    twin->arguments = one->arguments;
    twin->child = one->child;
    twins[one.get()] = twin;
  }
  for (const auto& one : from->nodes)
    for (Node* each : one->after) twins[one.get()]->after.push_back(twins[each]);
  *made = handle(to);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, std::size_t count,
                                          const cudaKernelNodeParams* p) {
  std::shared_ptr<Arguments> kept;
  Work work = kernel_work(*p, &kept);
  if (!work) return result(cudaErrorInvalidDeviceFunction);
  const cudaError_t error =
      add_by_hand(made, graph, after, count, cudaGraphNodeTypeKernel, std::move(work));
  if (error == cudaSuccess) {
    node_of(*made)->kernel = *p;
    node_of(*made)->arguments = kept;
  }
  return error;
}
EXPORT cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
  Node* one = node_of(node);
  *p = one->kernel;
  if (one->arguments) p->kernelParams = const_cast<void**>(one->arguments->places.data());
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                const cudaKernelNodeParams* p) {
  std::shared_ptr<Arguments> kept;
  Work work = kernel_work(*p, &kept);
  if (!work) return result(cudaErrorInvalidDeviceFunction);
  node_of(node)->work = std::move(work);
  node_of(node)->kernel = *p;
  node_of(node)->arguments = kept;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* made, cudaGraph_t graph,
                                            const cudaGraphNode_t* after, std::size_t count,
                                            void* to, const void* from, std::size_t bytes,
                                            cudaMemcpyKind kind) {
  const Copy one{to, from, bytes, 1, 0, 0, kind};
  if (const cudaError_t error = check_copy(one)) return error;
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeMemcpy, copy_work(one));
}
EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, std::size_t count,
                                          const cudaMemcpy3DParms* p) {
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeMemcpy,
                     [one = *p](std::uint64_t id) {
                       for (const Copy& each : slices_of(one))
                         if (const cudaError_t error = run_copy(each, id, false, "a memcpy node"))
                           return error;
                       return cudaSuccess;
                     });
}
EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, std::size_t count,
                                          const cudaMemsetParams* p) {
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeMemset, set_work(*p));
}
EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                        const cudaGraphNode_t* after, std::size_t count,
                                        const cudaHostNodeParams* p) {
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeHost, host_work(*p));
}
EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                            const cudaGraphNode_t* after, std::size_t count,
                                            cudaMemAllocNodeParams* p) {
  note(kUncovered, cudaSuccess, "memory that a graph allocates: its contents between launches");
  if (const cudaError_t error = cudaMalloc(&p->dptr, p->bytesize)) return error;
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeMemAlloc, nullptr);
}
EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                           const cudaGraphNode_t* after, std::size_t count,
                                           void* pointer) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeMemFree, nullptr);
}
EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                         const cudaGraphNode_t* after, std::size_t count) {
  return add_by_hand(made, graph, after, count, cudaGraphNodeTypeEmpty, nullptr);
}
EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                              const cudaGraphNode_t* after, std::size_t count,
                                              cudaGraph_t child) {
  cudaGraph_t copy;
  if (const cudaError_t error = cudaGraphClone(&copy, child)) return error;
  const cudaError_t error =
      add_by_hand(made, graph, after, count, cudaGraphNodeTypeGraph, nullptr);
  if (error == cudaSuccess) node_of(*made)->child = graph_of(copy);
  return error;
}
EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                            const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                            std::size_t count) {
  if (graph_of(graph) == nullptr) return result(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < count; ++i) node_of(to[i])->after.push_back(node_of(from[i]));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node_of(node)->type;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                     std::size_t* count) {
  const Graph* object = graph_of(graph);
  if (object == nullptr) return result(cudaErrorInvalidValue);
  for (std::size_t i = 0; nodes != nullptr && i < *count && i < object->nodes.size(); ++i)
    nodes[i] = handle(object->nodes[i].get());
  *count = object->nodes.size();
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                         std::size_t* count) {
  const Graph* object = graph_of(graph);
  if (object == nullptr) return result(cudaErrorInvalidValue);
  std::size_t found = 0;
  for (const auto& one : object->nodes) {
    if (!one->after.empty()) continue;
    if (nodes != nullptr && found < *count) nodes[found] = handle(one.get());
    ++found;
  }
  *count = found;
  return result(cudaSuccess);
}

// Executable graphs ------------------------------------------------------------------------------

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                                 unsigned long long) {
  const Graph* object = graph_of(graph);
  if (made == nullptr || object == nullptr) return result(cudaErrorInvalidValue);
  auto* exec = new Exec;
  if (!steps_of(object, exec->steps)) {
    delete exec;
    return result(cudaErrorInvalidValue);
  }
  std::lock_guard<std::mutex> lock(guard);
  execs.insert(exec);
  *made = reinterpret_cast<cudaGraphExec_t>(exec);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                        unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(made, graph, flags);
}
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec_of(exec) == nullptr) return result(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> lock(guard);
  execs.erase(exec);  // the steps stay: their addresses are timelines
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec_of(exec) == nullptr || !is_stream(stream)) return result(cudaErrorInvalidValue);
  order(kStepped, stream_id(stream));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Exec* object = exec_of(exec);
  if (object == nullptr) return result(cudaErrorInvalidValue);
  return enqueue(stream, cudaGraphNodeTypeGraph, [object](std::uint64_t id) {
    const Place place = here;
    const cudaError_t error = run(object->steps, id);
    here = place;
    return error;
  });
}
EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo* info) {
  Exec* object = exec_of(exec);
  const Graph* from = graph_of(graph);
  std::vector<Step> steps;
  if (object == nullptr || from == nullptr || !steps_of(from, steps))
    return result(cudaErrorInvalidValue);
  bool alike = steps.size() == object->steps.size();
  for (std::size_t i = 0; alike && i < steps.size(); ++i)
    alike = steps[i].after == object->steps[i].after &&
            steps[i].of->type == object->steps[i].of->type;
  if (info) {
    *info = {};
    info->result = alike ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
  }
  if (!alike) return result(cudaErrorGraphExecUpdateFailure);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    object->steps[i].work = steps[i].work;
    object->steps[i].place = steps[i].place;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaKernelNodeParams* p) {
  std::shared_ptr<Arguments> kept;
  return replace(exec, node, kernel_work(*p, &kept));
}
EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      void* to, const void* from,
                                                      std::size_t bytes, cudaMemcpyKind kind) {
  return replace(exec, node, copy_work(Copy{to, from, bytes, 1, 0, 0, kind}));
}
EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const cudaMemsetParams* p) {
  return replace(exec, node, set_work(*p));
}
EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const cudaHostNodeParams* p) {
  return replace(exec, node, host_work(*p));
}
EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           unsigned enabled) {
  Step* step = step_of(exec, node);
  if (step == nullptr) return result(cudaErrorInvalidValue);
  step->enabled = enabled != 0;
  return result(cudaSuccess);
}

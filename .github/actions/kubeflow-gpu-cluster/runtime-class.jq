# The patches that give the pods of ClusterTrainingRuntimes a runtime class: a line "<name>\t<JSON patch>" for each runtime that
# lacks it somewhere. Input: `kubectl get clustertrainingruntimes -o json`; $class is the runtime class.
# Initializers download and need no GPU: they stay as they are. A patch holds the job's name, should the list change meanwhile.
.items[]
| .metadata.name as $name
| [
    (.spec.template.spec.replicatedJobs // [])
    | to_entries[]
    | select((.value.template.metadata.labels["trainer.kubeflow.org/trainjob-ancestor-step"] // "") | endswith("-initializer") | not)
    | select(.value.template.spec.template.spec.runtimeClassName != $class)
    | "/spec/template/spec/replicatedJobs/\(.key)" as $at
    | {op: "test", path: "\($at)/name", value: .value.name},
      {op: "add", path: "\($at)/template/spec/template/spec/runtimeClassName", value: $class}
  ]
| select(length > 0)
| "\($name)\t\(tojson)"

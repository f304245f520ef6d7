'use strict'
// GitHub's runner starts this program as its container hooks, once for each step. It starts GitHub's own hooks with the same
// input, and gives the job what it finds in Docker: names, ports and health checks of services, and its own variables.
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const https = require('node:https')
const os = require('node:os')
const path = require('node:path')

const { env } = process
const HOOKS = env.GPU_CI_HOOKS || '/home/runner/k8s-novolume/index.js'
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount' // where kubelet writes the token of the runner's pod
const POD = `${`${env.ACTIONS_RUNNER_POD_NAME}`.slice(0, 63 - '-workflow'.length)}-workflow` // the hooks' name of the job's pod
const LOOK = 5000 // milliseconds between two looks at the job's pod
const PATIENCE = { failed: 2, pull: 24 } // looks at such a pod until the hooks, which would wait on, are stopped
const OPTION = /^--(health-(?:cmd|interval|timeout|retries|start-period)|network-alias|name|hostname)(?:=(.*))?$/s
// The hooks drop the first of a workflow, and the second keeps a service from the GPUs of its node.
const FIXED = ['HOME', 'NVIDIA_VISIBLE_DEVICES']
// A step adds folders to the runner's PATH, and the hooks copy files of the job here. They start sh, find and stat.
const SYSTEM = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const UNIT = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6 }

const pause = (time) => new Promise((done) => setTimeout(done, time))
// The runner shows such a line as an error or a warning of the step.
const say = (kind, text) => console.log(`::${kind}::${text.replace(/%/g, '%25').replace(/\r?\n/g, '%0A')}`)

// Docker takes Go's durations, Kubernetes whole seconds.
function seconds(options, flag, otherwise) {
  const text = options[flag] ?? '0'
  if (!/^((\d+(\.\d+)?(h|ms|m|us|s))+|0)$/.test(text)) throw new Error(`--${flag} is not a duration such as 10s: ${text}`)
  const parts = [...text.matchAll(/([\d.]+)([a-z]+)/g)].map(([, size, unit]) => size * UNIT[unit])
  return Math.ceil(parts.reduce((sum, part) => sum + part, 0)) || otherwise
}

// Those options of a service that mean something in a pod.
function optionsOf({ createOptions }) {
  const parts = (createOptions ?? '').match(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/gs) ?? []
  const plain = (_, one, two, three) => one ?? two?.replace(/\\(["\\$`])/g, '$1') ?? three
  const words = parts.map((part) => part.replace(/\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'/gs, plain))
  const pairs = words.map((word, at) => [OPTION.exec(word), words[at + 1]])
  return Object.fromEntries(pairs.filter(([match]) => match).map(([[, flag, value], next]) => [flag, value ?? next ?? '']))
}

// The runner sends no names of services. It logs the job's message before it starts any hook, and that has them in order.
function namesOf(services) {
  if (!services.length) return []
  try {
    const folder = path.resolve(HOOKS, '../../_diag')
    const newest = fs.readdirSync(folder).filter((name) => name.startsWith('Worker_')).sort().at(-1)
    const [, message] = /Job message:\r?\n (\{.*?\n\})\r?\n/s.exec(fs.readFileSync(path.join(folder, newest), 'utf8'))
    const names = JSON.parse(message).jobServiceContainers.map.map((entry) => entry.Key ?? entry.key)
    if (names.length === services.length) return names.map((name) => name.lit ?? name)
  } catch {} // Other logs of a later runner are no reason to start no job.
  say('warning', 'The runner names no services. They answer at localhost and at the names of their images.')
  return []
}

// A host port is the node's, which Pod Security refuses. All containers of a pod have one network: their own ports serve.
const portsOf = ({ portMappings }) => [...new Set((portMappings ?? []).flatMap((text) => {
  const [, first, last = first, protocol = ''] = /(\d+)(?:-(\d+))?(\/\w+)?$/.exec(text) ?? []
  return first ? Array.from({ length: last - first + 1 }, (_, at) => `${+first + at}${protocol}`) : [text]
}))]

// The services as the pod has them. It changes the input where the hooks would make a pod that Kubernetes refuses.
function servicesOf({ container, services = [] }) {
  // The hooks would copy such a folder of this pod to the job: one has the token.
  const volume = container.userMountVolumes?.[0]?.targetVolumePath
  if (volume) throw new Error(`A job mounts no folder of a machine: ${volume}. Name the volume in volumes of the class.`)
  // NVIDIA's runtime would give the job all GPUs that it names. The class says how many a job has.
  delete container.environmentVariables?.NVIDIA_VISIBLE_DEVICES
  const names = namesOf(services)
  for (const one of [container, ...services]) one.portMappings = portsOf(one)
  // The hooks log in for the job's image alone, and a pod's logins serve all its images.
  container.registry ??= services.find(({ registry }) => registry)?.registry
  const [taken, images] = [{}, {}]
  return services.map((service, at) => {
    // The hooks name a container by the image up to its colon, and Kubernetes takes no @ there. A digest rules any tag out.
    service.image = service.image.replace(/^((?:.*\/)?[^:@/]+)@/, '$1:digest@')
    const image = service.image.split('/').pop().split(':')[0]
    const name = names[at] ?? image
    for (const port of service.portMappings) {
      if (taken[port]) throw new Error(`${taken[port]} and ${name} both listen on ${port}, and a job's services share a network.`)
      taken[port] = name
    }
    const { serverUrl } = service.registry ?? container.registry ?? {}
    const other = serverUrl !== container.registry?.serverUrl
    if (other) say('warning', `${name}: a job has one login, not ${serverUrl} too. Use pullSecrets.`)
    // Kubernetes takes no two containers of a name.
    const twin = images[image]
    if (twin) throw new Error(`${twin} and ${name}: GitHub's hooks call both containers ${image}, after the image. Rename one image.`)
    images[image] = name
    const ports = service.portMappings.map((port) => port.split('/')[0])
    return { ...healthOf(optionsOf(service)), service, image, container: image, name, ports }
  })
}

// A health check of Docker as a probe of Kubernetes, the seconds after which Docker calls a service unhealthy, and its names.
function healthOf(options) {
  const [period, timeout] = ['health-interval', 'health-timeout'].map((flag) => seconds(options, flag, 30))
  const retries = +(options['health-retries'] ?? 0) || 3
  const exec = { command: ['/bin/sh', '-c', options['health-cmd']] }
  const readinessProbe = exec.command[2] && { exec, periodSeconds: period, timeoutSeconds: timeout, failureThreshold: retries }
  const most = seconds(options, 'health-start-period', 0) + retries * (period + timeout)
  return { readinessProbe, most, hosts: [options.name, options.hostname, options['network-alias']] }
}

// The template of the job's pod, with what its services ask for.
function jobTemplate({ container }, services, template) {
  const { spec } = template
  // The hooks append the template's variables, and the last of a name counts.
  const merged = ({ env: all = [], ...part }, { environmentVariables: own }, more) =>
    ({ ...part, ...more, env: all.filter(({ name }) => FIXED.includes(name) || !(name in (own ?? {}))) })
  const { $job, $service } = Object.fromEntries(spec.containers.map((part) => [part.name, part]))
  const all = services.flatMap(({ name, image, hosts }) => [name, image, ...hosts]).filter(Boolean)
  const names = [...new Set(all.map((name) => name.toLowerCase()))]
  const hostnames = names.filter((name) => /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name))
  const others = names.filter((name) => !hostnames.includes(name))
  for (const name of others) say('warning', `Kubernetes takes no name such as ${name}. Use localhost.`)
  if (hostnames.length) spec.hostAliases = [...(spec.hostAliases ?? []), { ip: '127.0.0.1', hostnames }]
  const beside = spec.containers.filter((part) => part !== $job && part !== $service)
  const merge = ({ service, container: name, readinessProbe }) => merged($service, service, { name: `$${name}`, readinessProbe })
  spec.containers = [...beside, merged($job, container), ...services.map(merge)]
  spec.initContainers.unshift(fsInit()) // The template's list replaces the hooks' own.
  return template
}

// The hooks' own init container, confined: it fills the volumes that the job's steps use.
function fsInit() {
  const volumeMounts = ['externals', 'work', 'github'].map((name) => ({ name, mountPath: `/mnt/${name}` }))
  const folder = `/mnt/work/${(env.GITHUB_WORKSPACE ?? '').split('/').slice(-2).join('/')}`
  const command = ['sh', '-c', `mkdir -p ${folder} && mv /home/runner/externals/* /mnt/externals/`]
  // The last two are what Pod Security `restricted` asks for.
  const securityContext = { runAsUser: 1001, runAsGroup: 1001, allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } }
  const hidden = [{ name: 'NVIDIA_VISIBLE_DEVICES', value: 'void' }]
  return { name: 'fs-init', image: env.ACTIONS_RUNNER_IMAGE, command, env: hidden, securityContext, volumeMounts }
}

// The job's pod, or the log of a container of it: null if there is none, undefined without an answer. Each job asks all the time:
// resourceVersion=0 is an answer from the API server's memory, which does not ask etcd.
const look = (log = '') => new Promise((done) => {
  const [ca, token] = ['ca.crt', 'token'].map((name) => fs.readFileSync(`${ACCOUNT}/${name}`, 'utf8'))
  const where = `/api/v1/namespaces/${env.ACTIONS_RUNNER_KUBERNETES_NAMESPACE}/pods/${POD}${log || '?resourceVersion=0'}`
  const server = { host: env.KUBERNETES_SERVICE_HOST, port: env.KUBERNETES_SERVICE_PORT, ca, timeout: LOOK }
  const request = https.get({ ...server, path: where, headers: { Authorization: `Bearer ${token}` } }, (answer) => {
    const parts = []
    answer.on('data', (part) => parts.push(part)).on('error', () => done()).on('end', () => {
      const text = Buffer.concat(parts).toString()
      done(answer.statusCode === 404 ? null : answer.statusCode !== 200 ? undefined : log ? text : JSON.parse(text))
    })
  })
  request.on('timeout', () => request.destroy()).on('error', () => done())
}).catch(() => undefined)

// Why the pod runs no job: a kind of PATIENCE, or '' where time may help, and the reason.
function trouble(pod) {
  const pair = (kind, { reason, message }) => [kind, [reason, message].filter(Boolean).join(': ')]
  if (!pod) return ['failed', 'It is gone.']
  const { phase, conditions = [], containerStatuses = [], initContainerStatuses = [] } = pod.status
  if (phase === 'Failed') return pair('failed', { reason: phase, ...pod.status })
  const ended = containerStatuses.find(({ name }) => name === 'job')?.state?.terminated
  if (ended) return pair('failed', ended)
  const waiting = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state?.waiting)
  const pull = waiting.find((one) => /Image/.test(one?.reason))
  if (pull) return pair('pull', pull)
  const unplaced = conditions.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
  return unplaced ? pair('', unplaced) : []
}

// The exit status of the hooks. They wait long for a pod that is lost, and do not say why it is: watch it beside them.
async function run(input, more) {
  // The hooks use what node warns of, and each step would show the warning.
  const options = { stdio: ['pipe', 'inherit', 'inherit'], env: { ...env, PATH: SYSTEM, ...more } }
  const child = spawn(process.execPath, ['--no-deprecation', '--require', __filename, HOOKS], options)
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  const closed = new Promise((done, fail) => {
    child.on('error', fail).on('close', (code, signal) => done(code ?? 128 + os.constants.signals[signal]))
  })
  child.stdin.on('error', () => {}).end(`${JSON.stringify(input)}\n`)
  if (!['prepare_job', 'run_script_step'].includes(input.command)) return closed
  for (let [kind, reason, times, code] = ['', '', 0]; ; ) {
    code = await Promise.race([closed, pause(LOOK)])
    const pod = code === 0 || code > 128 ? undefined : await look() // A cancelled job has seconds.
    if (pod || (pod === null && input.command === 'run_script_step')) {
      const before = kind;
      [kind, reason] = trouble(pod)
      times = kind === before ? times + 1 : 1
    }
    if (code && reason) say('error', `The job's pod ${POD} has failed. ${reason}`)
    if (code !== undefined) return code
    if (times > PATIENCE[kind]) child.kill()
  }
}

// Docker's runner waits too until services are healthy, and shows the log of one that is not.
async function untilHealthy(services) {
  const began = Date.now()
  for (const { name, container, most } of services.filter(({ readinessProbe }) => readinessProbe)) {
    for (let status; !status?.ready; await pause(1000)) {
      status = (await look())?.status.containerStatuses?.find((one) => one.name === container)
      if (status?.ready || (!status?.state?.terminated && Date.now() - began < most * 1000)) continue
      console.log(await look(`/log?container=${container}&tailLines=50`))
      throw new Error(`The service ${name} is not healthy after ${most} seconds.`)
    }
  }
}

// The runner reads the actions of a repository in its own workspace, and GitHub's hooks 0.8 bring no file of the job's there
// (runner-container-hooks#337). They bring file commands: so a checkout leaves the descriptions of actions beside these.
const DESCRIBED = '_runner_file_commands/gpu-ci-actions'

function describeActions(args) {
  const to = `/__w/_temp/${DESCRIBED}`
  const copy = 'to="' + to + '/${file%/*}"; mkdir -p "$to" && cp "$file" "$to"'
  // The runner starts no action whose program it lacks. An empty one does: the job's container runs its own.
  const names = 'sed -nE "s#^ +(main|pre|post): *[^-A-Za-z0-9._@/]?([-A-Za-z0-9._/@]+).*#\\2#p" "$file"'
  const touch = `${names} | while IFS= read -r name; do mkdir -p "$(dirname "$to/$name")" && : > "$to/$name"; done`
  const find = 'find . -name .git -prune -o -type f "(" -name action.yml -o -name action.yaml ")" -print'
  const all = `cd "$GITHUB_WORKSPACE" && rm -rf ${to} && ${find} | while IFS= read -r file; do ${copy}; ${touch}; done`
  args.entryPoint = `sh -c '"$@"; code=$?; { ${all}; } >/dev/null 2>&1; exit $code' sh ${args.entryPoint}`
}

function takeActions() {
  const [from, to] = [`${env.RUNNER_TEMP}/${DESCRIBED}`, `${env.RUNNER_WORKSPACE}/${path.basename(env.GITHUB_WORKSPACE ?? '')}`]
  const filter = (file) => !fs.lstatSync(file).isSymbolicLink()
  if (fs.existsSync(from)) fs.cpSync(from, to, { recursive: true, filter })
}

async function main() {
  const parts = []
  for await (const part of process.stdin) parts.push(part)
  let input
  try {
    input = JSON.parse(Buffer.concat(parts).toString())
  } catch {
    throw new Error('Standard input has no JSON. GitHub\'s runner writes it when it starts this program.')
  }
  const { command, args, responseFile, state } = input
  // A job can change the runner's files, and this says in which pod its next step runs.
  if (state?.jobPod) state.jobPod = POD
  const file = { prepare_job: 'job.json', run_container_step: 'step.json' }[command]
  if (command === 'run_script_step' && /\/_actions\/actions\/checkout\//.test(args?.entryPointArgs?.join(' '))) {
    describeActions(args)
    const code = await run(input)
    takeActions()
    return code
  }
  if (!file || !args) return run(input)
  const template = JSON.parse(fs.readFileSync(path.join(__dirname, file), 'utf8'))
  const services = command === 'prepare_job' && args.container ? servicesOf(args) : []
  if (command === 'prepare_job' && args.container) jobTemplate(args, services, template)
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'container-jobs-')) // only for this user
  try {
    const written = path.join(folder, file)
    fs.writeFileSync(written, JSON.stringify(template), { mode: 0o600 })
    const code = await run(input, { ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE: written })
    if (code || !services.length) return code
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
  await untilHealthy(services)
  const response = JSON.parse(fs.readFileSync(responseFile, 'utf8'))
  // The hooks write host ports alone, and there are none. A workflow reads them as job.services.<name>.ports.
  for (const [at, { ports }] of services.entries()) {
    response.context.services[at].ports = Object.fromEntries(ports.map((port) => [port, port]))
  }
  fs.writeFileSync(responseFile, JSON.stringify(response))
  return 0
}

// In the process of GitHub's hooks, which unpack what the job's tar sends. tar-fs 3.1.1 checks the target of a link as text, and
// `a/up/../x` is elsewhere if `a/up` is a link: a job could write the hooks themselves. So a link gets the checked target.
function confineLinks() {
  const { symlink } = fs
  fs.symlink = (target, ...more) => symlink(path.normalize(target), ...more)
}

if (require.main !== module) confineLinks()
else main().catch((error) => say('error', error.message) ?? 1).then((code) => process.exit(code))

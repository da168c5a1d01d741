{{- define "cdc-relay.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "cdc-relay.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels without those that select relays: the pods of Jobs are none. */}}
{{- define "cdc-relay.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "cdc-relay.labels" -}}
{{ include "cdc-relay.chartLabels" . }}
{{ include "cdc-relay.selector" . }}
{{- end }}

{{/* It takes (list $serviceAccount $default). */}}
{{- define "cdc-relay.serviceAccount" -}}
{{- $account := index . 0 }}
{{- default (ternary (index . 1) "default" $account.create) $account.name }}
{{- end }}

{{/* Fills a dictionary with the values of one database: its own over the shared ones, and what the templates need beside them. Passed on as YAML,
large numbers would become 1e+06. It takes (list $ $database $dictionary). */}}
{{- define "cdc-relay.database" -}}
{{- $ := index . 0 }}
{{- $db := deepCopy (index . 1) }}
{{- $d := index . 2 }}
{{- range $key, $value := deepCopy (omit $.Values "databases") }}{{ $_ := set $d $key $value }}{{ end }}
{{- range $key, $value := $db }}
  {{- if kindIs "map" $value }}{{ $value = mergeOverwrite (dict) (get $d $key | default dict) $value }}
  {{- else if kindIs "slice" $value }}{{ $value = concat (get $d $key | default list) $value }}
  {{- end }}
  {{- $_ := set $d $key $value }}
{{- end }}
{{- if hasKey ($db.image | default dict) "tag" }}{{ $_ := set $d.image "digest" ($db.image.digest | default "") }}{{ end }}
{{- $object := printf "%s-%s" (include "cdc-relay.fullname" $) (regexReplaceAll "[._]" $db.name "-" | lower) }}
{{- $limit := ternary 57 63 (or $d.setup.enabled $d.check.enabled) }}
{{- if gt (len $object) $limit }}
  {{- fail (printf "database %s: %s has more than the %d characters that the name of an object may have: set a shorter fullnameOverride" $db.name $object $limit) }}
{{- end }}
{{- $_ := set $d "object" $object }}
{{- $_ := set $d "account" (include "cdc-relay.serviceAccount" (list $.Values.serviceAccount (include "cdc-relay.fullname" $))) }}
{{- with $db.serviceAccount }}
  {{- $_ := set $d.serviceAccount "name" .name }}
  {{- $_ := set $d "account" (include "cdc-relay.serviceAccount" (list $d.serviceAccount $object)) }}
{{- end }}
{{- include "cdc-relay.listen" $d }}
{{- include "cdc-relay.position" (list $db $d) }}
{{- end }}

{{/* Sets where the relay listens. */}}
{{- define "cdc-relay.listen" -}}
{{- $http := mergeOverwrite (dict "listen" ":9464") (.config.http | default dict) }}
{{- if and $http.web_config (not $http.health_listen) }}{{ $_ := set $http "health_listen" ":9465" }}{{ end }}
{{- range $key, $listen := pick $http "listen" "health_listen" }}
  {{- if not (regexMatch ":[0-9]+$" $listen) }}
    {{- fail (printf "database %s: http.%s is %q, without a port: the probes need one, such as :9464" $.name $key $listen) }}
  {{- end }}
{{- end }}
{{- $probed := ternary "health_listen" "listen" (hasKey $http "health_listen") }}
{{- if regexMatch "^(127\\.|localhost:|\\[::1\\])" (get $http $probed) }}
  {{- fail (printf "database %s: http.%s is %s, which only the pod itself reaches: leave the host out, or set http.health_listen for the probes" .name $probed (get $http $probed)) }}
{{- end }}
{{- $_ := set .config "http" $http }}
{{- $_ := set . "httpPort" (regexFind "[0-9]+$" $http.listen) }}
{{- $_ := set . "healthPort" (regexFind "[0-9]+$" ($http.health_listen | default "")) }}
{{- end }}

{{/* Verifies where the position is kept. */}}
{{- define "cdc-relay.position" -}}
{{- $db := index . 0 }}
{{- $d := index . 1 }}
{{- $source := $d.config.source | default dict }}
{{- if not (or $source.postgres $source.mysql) }}
  {{- fail (printf "database %s has no source: set source.postgres or source.mysql in its config" $db.name) }}
{{- end }}
{{- $file := dig "checkpoint" "file" "" $d.config }}
{{- if and $source.mysql (not (or $file (dig "checkpoint" "redis" "" $d.config) (ne "at-least-once" ($d.config.delivery | default "at-least-once")))) }}
  {{- fail (printf "database %s has no checkpoint, and MySQL and MariaDB keep no position for a relay: set checkpoint.redis or checkpoint.file" $db.name) }}
{{- end }}
{{- $_ := set $d "file" $file }}
{{- if $file }}
  {{- if not (hasPrefix "/var/lib/cdc-relay/" $file) }}
    {{- fail (printf "database %s: checkpoint.file is %s, which is not on the volume: put it below /var/lib/cdc-relay/" $db.name $file) }}
  {{- end }}
  {{- if gt (int $db.replicas) 1 }}
    {{- fail (printf "database %s: a checkpoint file has one relay: remove replicas, or keep the position in checkpoint.redis" $db.name) }}
  {{- end }}
  {{- if or $d.setup.enabled $d.check.enabled }}
    {{- fail (printf "database %s: a Job does not reach the volume of checkpoint.file: keep the position in checkpoint.redis, or set setup.enabled and check.enabled to false" $db.name) }}
  {{- end }}
  {{- $_ := set $d "replicas" (min 1 $d.replicas) }}
{{- end }}
{{- end }}

{{/* The spec of a pod that runs a command for one database. It takes (list $ $database $command). */}}
{{- define "cdc-relay.pod" -}}
{{- $ := index . 0 }}
{{- $d := index . 1 }}
{{- $command := index . 2 }}
{{- $run := eq $command "run" }}
{{- $setup := eq $command "setup" }}
{{- $object := ternary (printf "%s-setup" $d.object) $d.object $setup -}}
serviceAccountName: {{ ternary ($d.setup.serviceAccountName | default "default") $d.account $setup }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- if $run }}
terminationGracePeriodSeconds: {{ $d.terminationGracePeriodSeconds }}
{{- else }}
restartPolicy: Never
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $d.extraInitContainers }}
initContainers: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: cdc-relay
    {{- with $d.image }}
    image: "{{ with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}"
    imagePullPolicy: {{ .pullPolicy }}
    {{- end }}
    args: [{{ $command }}]
    env:
      - {name: DATABASE, value: {{ $d.name | quote }}}
      {{- if dig "limits" "memory" "" $d.resources }}
      # In MiB, rounded up, and six zeros after it: 95 % of the limit in bytes.
      - {name: MEMORY_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
      - {name: GOMEMLIMIT, value: $(MEMORY_LIMIT)000000}
      {{- end }}
      {{- if and $setup $d.setup.existingSecret }}
      - {name: CDC_RELAY_OWNER_DSN, valueFrom: {secretKeyRef: {name: {{ $d.setup.existingSecret }}, key: {{ $d.setup.key }}}}}
      {{- end }}
      {{- with $d.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $d.envFrom }}
    envFrom: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if $run }}
    ports:
      - {name: http, containerPort: {{ $d.httpPort }}}
      {{- if $d.healthPort }}
      - {name: health, containerPort: {{ $d.healthPort }}}
      {{- end }}
    {{- range $probe, $path := dict "startupProbe" "/livez" "livenessProbe" "/livez" "readinessProbe" "/readyz" }}
    {{- with get $d $probe }}
    {{ $probe }}:
      httpGet: {path: {{ $path }}, port: {{ ternary "health" "http" (ne $d.healthPort "") }}}
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- end }}
    {{- end }}
    resources: {{- toYaml $d.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: config, mountPath: /etc/cdc-relay, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- if $d.file }}
      - {name: state, mountPath: /var/lib/cdc-relay}
      {{- end }}
      {{- with $d.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  {{- if and $run $d.extraContainers }}
  {{- toYaml $d.extraContainers | nindent 2 }}
  {{- end }}
volumes:
  - name: config
    projected:
      sources:
        - configMap: {name: {{ $object }}}
        {{- if $d.secrets }}
        - secret: {name: {{ $object }}}
        {{- end }}
        {{- range $d.existingSecrets }}
        - secret: {name: {{ . }}}
        {{- end }}
  - name: tmp
    emptyDir: {sizeLimit: {{ $d.tmp.sizeLimit }}}
  {{- if $d.file }}
  - name: state
    persistentVolumeClaim: {claimName: {{ $d.object }}}
  {{- end }}
  {{- with $d.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with get $d $key }}
{{ $key }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The ConfigMap and the Secret that a pod mounts. It takes (list $ $database $name $annotations). */}}
{{- define "cdc-relay.files" -}}
{{- $d := index . 1 }}
{{- $metadata := dict "name" (index . 2) "labels" (include "cdc-relay.labels" (index . 0) | fromYaml) "annotations" (index . 3) -}}
apiVersion: v1
kind: ConfigMap
metadata: {{- toYaml $metadata | nindent 2 }}
data:
  cdc-relay.yaml: |
    {{- toYaml $d.config | nindent 4 }}
{{- with $d.secrets }}
---
apiVersion: v1
kind: Secret
metadata: {{- toYaml $metadata | nindent 2 }}
stringData: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A ServiceAccount. It takes (list $ $name $annotations). */}}
{{- define "cdc-relay.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ index . 1 }}
  labels: {{- include "cdc-relay.labels" (index . 0) | nindent 4 }}
  {{- with index . 2 }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{/* A Job that runs a command once, at a hook of Helm. It takes (list $ $database $command $hook). */}}
{{- define "cdc-relay.job" -}}
{{- $ := index . 0 }}
{{- $d := index . 1 }}
{{- $command := index . 2 -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $d.object }}-{{ $command }}
  labels: {{- include "cdc-relay.labels" $ | nindent 4 }}
  annotations:
    helm.sh/hook: {{ index . 3 }}
    helm.sh/hook-delete-policy: before-hook-creation # until then kubectl logs shows what it has done
spec:
  backoffLimit: 0
  template:
    metadata:
      labels:
        {{- include "cdc-relay.chartLabels" $ | nindent 8 }}
        {{- with $d.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $d.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "cdc-relay.pod" (list $ $d $command) | nindent 6 }}
{{- end }}

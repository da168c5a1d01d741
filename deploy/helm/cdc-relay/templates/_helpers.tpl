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

{{- define "cdc-relay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "cdc-relay.selector" . }}
{{- end }}

{{- define "cdc-relay.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "cdc-relay.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Sets what the templates of one database need in a dictionary; YAML would turn large numbers into 1e+06. It takes
(list $ $database $dictionary). */}}
{{- define "cdc-relay.database" -}}
{{- $ := index . 0 }}
{{- $db := index . 1 }}
{{- $d := index . 2 }}
{{- $config := mergeOverwrite (dict) (deepCopy $.Values.config) (deepCopy ($db.config | default dict)) }}
{{- $http := mergeOverwrite (dict "listen" ":9464") ($config.http | default dict) }}
{{- if and $http.web_config (not $http.health_listen) }}{{ $_ := set $http "health_listen" ":9465" }}{{ end }}
{{- $_ := set $config "http" $http }}
{{- if not (regexMatch ":[0-9]+$" $http.listen) }}
  {{- fail (printf "database %s: http.listen is %q, without a port: the probes need one, such as :9464" $db.name $http.listen) }}
{{- end }}
{{- $file := dig "checkpoint" "file" "" $config }}
{{- $replicas := $db.replicas | default $.Values.replicas }}
{{- if $file }}
  {{- if not (hasPrefix "/var/lib/cdc-relay/" $file) }}
    {{- fail (printf "database %s: checkpoint.file is %s, which is not on the volume: put it below /var/lib/cdc-relay/" $db.name $file) }}
  {{- end }}
  {{- if gt (int $db.replicas) 1 }}
    {{- fail (printf "database %s: a checkpoint file has one relay: remove replicas, or keep the position in checkpoint.redis" $db.name) }}
  {{- end }}
  {{- $replicas = 1 }}
{{- end }}
{{- if not (or (dig "source" "postgres" "" $config) (dig "source" "mysql" "" $config)) }}
  {{- fail (printf "database %s has no source: set source.postgres or source.mysql in its config" $db.name) }}
{{- end }}
{{- $_ := set $d "name" (printf "%s-%s" (include "cdc-relay.fullname" $) $db.name) }}
{{- $_ := set $d "config" $config }}
{{- $_ := set $d "file" $file }}
{{- $_ := set $d "replicas" $replicas }}
{{- $_ := set $d "httpPort" (regexFind "[0-9]+$" $http.listen) }}
{{- $_ := set $d "healthPort" (regexFind "[0-9]+$" ($http.health_listen | default "")) }}
{{- end }}

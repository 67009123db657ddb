{{- define "partway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "partway.selector" -}}
app.kubernetes.io/name: partway
app.kubernetes.io/instance: {{ .release }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "partway.labels" -}}
{{ include "partway.selector" (dict "release" .context.Release.Name "component" .component) }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
helm.sh/chart: {{ .context.Chart.Name }}-{{ .context.Chart.Version }}
{{- end }}

{{- /* The pods that the operator makes. */ -}}
{{- define "partway.modelPods" -}}
app.kubernetes.io/managed-by: partway-operator
{{- end }}

{{- /* Seconds over which a gateway ends the streams that are left, and in which their last bytes are
sent: shutdown_spread and shutdown_hard. Stopping then takes a few seconds more. */ -}}
{{- define "partway.gateway.grace" -}}
{{ add .Values.gateway.endSeconds .Values.streamLifetime 5 5 10 }}
{{- end }}
